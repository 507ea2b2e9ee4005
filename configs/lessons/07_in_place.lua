-- What a node keeps: versions and checkpoints
--
-- A node keeps what its derivative will need. The square keeps its input, since its slope is 2 x;
-- exp keeps its own result, since it is its own slope.
local x = gradus.tensor({1.0, 2.0}, {requires_grad = true})
local h = x * 3
local y = h * h
-- (After a walk nodes let go of what they kept; retain_graph says that another walk will come.)
print(gradus.grad(y:sum(), x, {retain_graph = true}))  -- y is 9 x^2, so 18 x

-- Now somebody writes into h. The square has kept h, and the 3 and 6 of its slope are gone. To go
-- on with what lies there now would give a gradient, and a wrong one. But every tensor counts the
-- writes into it, and a saved one remembers the number of that moment. If they differ when backward
-- comes by, that is an error and never a silent wrong gradient. (pcall is Lua's: it calls, and
-- gives false and the message if there was an error. mul_ with its underscore writes in place.)
h:mul_(10)
print("version of h:", h.version)
local ok, message = pcall(function() y:sum():backward() end)
print(ok, (tostring(message):gsub("^%S+%s", "")))

-- A write that nobody's derivative needs is harmless: a sum keeps nothing of its operands. And a
-- write is recorded like any other op: what is read afterwards has the gradient of the new value.
local a = x * 3
local before = (a + 1):sum()
a:mul_(10)
print(gradus.grad(before, x, {retain_graph = true}))
print(gradus.grad(a:sum(), x))

-- What nodes keep is most of the memory of training, and it grows with depth. Under a checkpoint
-- the nodes of a stretch keep nothing. What goes into the stretch is held, here u, which is there
-- anyway, and the stretch runs again when backward comes to it: the same gradient, for one more
-- forward pass. The ledger of the audit counts what nodes keep.
local runs = 0
local function stretch(t)
  runs = runs + 1
  for _ = 1, 20 do t = (2 * t):sin() end
  return t:sum()
end
local u = gradus.linspace(0, 1, 1000):requires_grad_()
local kept = gradus.audit.ledger(function() return stretch(u) end).bytes
local again = gradus.audit.ledger(function() return gradus.checkpoint(stretch, u) end).bytes
print("bytes that nodes keep:", kept, "under a checkpoint:", again, "and u itself:", 4 * #u)
runs = 0
local plain = gradus.grad(stretch(u), u)
print("runs:", runs)
print("the same:", (plain - gradus.grad(gradus.checkpoint(stretch, u), u)):abs():max():item() == 0)
print("runs:", runs - 1)

-- Exercise: exp keeps its result and not its input. So with y = h:exp(), which of h:mul_(10) and
-- y:mul_(10) is an error when backward comes by? Try both.
--[==[ prints
[18, 36]
f32 (2,)
version of h:	1
false	mul: saved input 1 (2,) was changed by mul_ after it was saved (version 0 -> 1); clone() it before the write, or use an op that returns a new tensor
[3, 3]
f32 (2,)
[30, 30]
f32 (2,)
bytes that nodes keep:	80080	under a checkpoint:	0	and u itself:	4000
runs:	1
the same:	true
runs:	2
]==]
