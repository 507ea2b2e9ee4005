-- Linear regression: a line through points, by following the slope of the squared error.
gradus.seed(1)
local x = gradus.randn(100, 1)
local y = 3 * x - 2 + 0.1 * gradus.randn(100, 1)

local w = gradus.zeros(1, 1, {requires_grad = true})
local b = gradus.zeros(1, {requires_grad = true})

for step = 1, 100 do
  local loss = ((x:matmul(w) + b - y) ^ 2):mean()
  loss:backward()
  gradus.no_grad(function()
    w:sub_(0.1 * w.grad)
    b:sub_(0.1 * b.grad)
  end)
  w:zero_grad()
  b:zero_grad()
  if step == 1 or step % 25 == 0 then
    print(string.format("step %3d  loss %.4f  y = %.3f x %+.3f", step, loss:item(), w:item(), b:item()))
  end
end
--[[ prints
step   1  loss 11.9089  y = 0.519 x -0.406
step  25  loss 0.0109  y = 2.991 x -1.996
step  50  loss 0.0098  y = 3.018 x -2.003
step  75  loss 0.0098  y = 3.018 x -2.003
step 100  loss 0.0098  y = 3.018 x -2.003
]]
