"""Ray on one or several machines: sessions, resources of trials, and transfer of code and files."""
