-- worker, leases
-- include common
local released = {}
for i = 2, #ARGV do
  local arrival, priority, queue, task = held_by(ARGV[1], ARGV[i])
  released[#released + 1] = arrival and 1 or 0
  if arrival then
    drop(arrival, queue)
    bring_back(queue, priority, tonumber(arrival), task)
  end
end
tally()
return {counts(), released}
