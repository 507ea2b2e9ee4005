-- Gaussian-process regression: the length scale is learned by the gradient of the likelihood.
--
-- Values y at points x are thought of as one draw of a normal distribution with the covariance
-- K = exp(-(x - x')^2 / (2 l^2)) + noise. Its log likelihood is
--     -(y^T K^-1 y + log det K + n log 2 pi) / 2,
-- and with K = L L^T both terms come from one triangle: y^T K^-1 y = |L^-1 y|^2, and log det K is
-- twice the sum of the logarithms of L's diagonal. The gradient goes through cholesky.
--
-- gradus script configs/linalg/gaussian_process.lua [POINTS]
local n = tonumber(arg[1]) or 40
local f64 = {dtype = "f64"}
gradus.seed(2)
local x = gradus.linspace(0, 6, n, f64)
local y = (2 * x):sin() + 0.1 * gradus.randn(n, f64)

local function covariance(a, b, log_scale)
  local gap = a:reshape(-1, 1) - b:reshape(1, -1)
  return (-gap:square() / (2 * (2 * log_scale):exp())):exp()
end
local noise = 0.01 * gradus.eye(n, n, f64)
local function log_likelihood(log_scale)
  local l = (covariance(x, x, log_scale) + noise):cholesky()
  local white = gradus.solve_triangular(l, y, {upper = false})
  return -0.5 * white:square():sum() - l:diagonal():log():sum() - 0.5 * n * math.log(2 * math.pi)
end
-- The same by the inverse and the determinant.
local function directly(log_scale)
  local k = covariance(x, x, log_scale) + noise
  local _, log_det = k:slogdet()
  return -0.5 * (y:dot(gradus.solve(k, y)) + log_det + n * math.log(2 * math.pi))
end

local log_scale = gradus.tensor(math.log(0.2), f64):requires_grad_()
local optimizer = gradus.optim.adam({log_scale}, {lr = 0.1})
for step = 0, 60 do
  optimizer:zero_grad()
  local likelihood = log_likelihood(log_scale)
  ;(-likelihood):backward()
  if step % 15 == 0 then
    print(string.format("step %2d  length %.4f  log likelihood %9.4f", step, log_scale:exp():item(),
                        likelihood:item()))
  end
  optimizer:step()
end

local other = log_scale:detach():requires_grad_()
local a, b = log_likelihood(log_scale), directly(other)
local slope_a, slope_b = gradus.grad(a, log_scale):item(), gradus.grad(b, other):item()
local off = math.max(math.abs(a:item() - b:item()), math.abs(slope_a - slope_b))
-- Between the points the mean of the process should follow the curve.
local between = gradus.linspace(0.5, 5.5, 50, f64)
local scale = log_scale:detach()
local mean = covariance(between, x, scale):matmul(gradus.solve(covariance(x, x, scale) + noise, y))
local miss = (mean - (2 * between):sin()):abs():amax():item()
print(string.format("largest miss between the points: %.3f", miss))
if not (off < 1e-8) then error("cholesky and the determinant differ by " .. off) end
if not (miss < 0.2) then error("the curve is missed by " .. miss) end
print("verified: value and gradient, by the inverse and the determinant, to 1e-8")
