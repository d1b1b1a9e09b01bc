-- worker. Returns the counts, and the number of its last addition.
-- include common
return {counts(), last_added(ARGV[1])}
