-- worker. Returns the counts, and the number of its last addition.
-- include common
return {counts()}
