"""Ray on one machine or many: what trials need, and the code and files that travel between machines."""
