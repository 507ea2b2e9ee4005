-- A matrix of low rank through what is known of some of its entries.
--
-- Of a matrix of rank 2 a third of the entries is hidden. The loss is the squared error of the
-- truncated SVD of a guess at the entries that are known; its gradient goes through truncated_svd,
-- whose derivative knows the values that it leaves out. Gradient descent on the guess fills the gaps.
--
-- gradus script configs/linalg/low_rank.lua [SIZE]
local n = tonumber(arg[1]) or 16
local f64 = {dtype = "f64"}
gradus.seed(4)
local truth = gradus.randn(n, 2, f64):matmul(gradus.randn(2, n, f64))
local known = (gradus.rand(n, n, f64):gt(1 / 3)):cast("f64")

local function fit(guess)
  local u, s, vh, left_out = gradus.truncated_svd(guess, {rank = 2})
  return (u * s):matmul(vh), left_out
end
local function loss(guess)
  return ((fit(guess) - truth) * known):square():sum()
end

-- The gradient against differences along one direction, at the start.
local guess = (truth * known):requires_grad_()
local direction, h = gradus.randn(n, n, f64), 1e-5
local slope = (gradus.grad(loss(guess), guess) * direction):sum():item()
local moved = function(t) return loss(guess:detach() + t * direction):item() end
local differences = (moved(h) - moved(-h)) / (2 * h)
local off = math.abs(slope / differences - 1)

local optimizer = gradus.optim.adam({guess}, {lr = 0.05})
for step = 0, 600 do
  optimizer:zero_grad()
  local l = loss(guess)
  l:backward()
  if step % 150 == 0 then print(string.format("step %3d  loss %.3e", step, l:item())) end
  optimizer:step()
end
local filled = fit(guess:detach())
local error_of_hidden = (((filled - truth) * (1 - known)):norm() / (truth * (1 - known)):norm()):item()
print(string.format("hidden entries: off by %.2e of their size", error_of_hidden))
if not (off < 1e-6) then error("the gradient is off by " .. off) end
if not (error_of_hidden < 0.05) then error("the gaps are filled wrong: " .. error_of_hidden) end
print("verified: the gradient, to 6 digits, by differences; the hidden entries, to a twentieth")
