"""NFS as its clients count it: /proc/self/mountstats."""
