"""Ray on one or several machines: sessions, trials' resource requirements, and transfer of code and files."""
