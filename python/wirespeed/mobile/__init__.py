"""Captures of mobile cores: what control planes say to user planes (PFCP), and whose users' packets are whose."""
