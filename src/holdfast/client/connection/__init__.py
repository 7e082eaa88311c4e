"""Connection to a cluster: which one, ZooKeeper sessions, retries."""
