-- worker, then for each url: lease, 1 where it may have taken the worker down
-- include common
local released = {}
for n, lease in ipairs(end_leases(ARGV[1], 2, 2)) do
  released[n] = lease and 1 or 0
  if lease then
    local arrival, attempts, priority, queue, task = unpack(lease)
    bring_back(queue, priority, arrival, attempts + ARGV[2 * n + 1], task)
  end
end
tally()
return {counts(), released}
