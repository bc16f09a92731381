"""A lab of one's own, outside of rlrun: an algorithm (`my_lab.awr:AWR`) and an env (`my_lab.room:Room`)."""
