"""A lab outside of rlrun: algorithms (`my_lab.awr:AWR`, `my_lab.es:ES`) and an env (`my_lab.room:Room`)."""
