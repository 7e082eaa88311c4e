"""Failsafe promises: granted to other nodes, kept on disk, and exchanged for the attempts of this node.

`promises` grants and keeps promises, `journal` stores them. `exchange` requests promises from all nodes of the cluster for the
attempts of this node (`known_peers`, `peer_http`), and `runner_files` publishes them to the runners.
"""
