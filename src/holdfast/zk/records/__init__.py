"""Records in ZooKeeper: znode paths, and the reads and writes of clients: jobs, upgrades, quarantine, cluster view.

Owns: all znode paths. Never does: write as a leader; those writes go through `zk.leadership`.
"""
