-- Backward, step by step. The walk goes from the last node to the first. Each gets the gradient of
-- its result, its cotangent, and sends gradients on to its operands; what is used twice is sent two,
-- and waits for both: they add up.
local w = gradus.tensor(2.0, {requires_grad = true})
local x = gradus.tensor(3.0, {requires_grad = true})

local function network()
  local a = w * x  -- %0
  local b = a + x  -- %1
  return a * b     -- %2
end

gradus.audit.backward(network, function(step)
  print(string.format("%s %s gets %g", step.node, step.op, step.cotangents[1]:item()))
  for _, sent in ipairs(step.sent) do
    local share = sent.of > 1 and string.format(" (%d of %d)", sent.nth, sent.of) or ""
    print(string.format("    sends %g to %s%s", sent.value:item(), sent.to, share))
  end
end)
print(string.format("w.grad = %g, x.grad = %g", w.grad:item(), x.grad:item()))

-- By hand: y = w x (w x + x) = (w^2 + w) x^2, so dy/dw = (2 w + 1) x^2 and dy/dx = 2 (w^2 + w) x.
print(string.format("by hand: %g and %g", (2 * 2 + 1) * 3 ^ 2, 2 * (2 ^ 2 + 2) * 3))
--[[ prints
%2 mul gets 1
    sends 9 to %0 (1 of 2)
    sends 6 to %1
%1 add gets 6
    sends 6 to %0 (2 of 2)
    sends 6 to x (1 of 2)
%0 mul gets 15
    sends 45 to w
    sends 30 to x (2 of 2)
w.grad = 45, x.grad = 36
by hand: 45 and 36
]]
