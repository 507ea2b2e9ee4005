-- Gradients that vanish, and a softmax that overflows
--
-- Backward multiplies one factor for each layer. The slope of sigmoid is at most 1/4, so after
-- twenty layers nothing is left. relu's slope is 1 where it is on: with weights of the right size
-- (He: a deviation of sqrt(2 / inputs)) a gradient keeps its size at any depth. Sizes are measured
-- by the norm, the root of the sum of squares.
local function share_that_arrives(act, scale, depth)
  gradus.seed(1)
  local x = gradus.randn(64, 64, {requires_grad = true})
  local h, g = x, gradus.randn(64, 64)
  for _ = 1, depth do h = gradus[act](h:matmul(gradus.randn(64, 64) * scale)) end
  return (gradus.grad(h, x, g):norm() / g:norm()):item()
end
print("layers   sigmoid     relu by He")
for _, depth in ipairs{1, 5, 20} do
  local sigmoid = share_that_arrives("sigmoid", math.sqrt(1 / 64), depth)
  local relu = share_that_arrives("relu", math.sqrt(2 / 64), depth)
  print(string.format("%4d     %.2e    %.2f", depth, sigmoid, relu))
end

-- The other way to lose a gradient is to leave the numbers. Softmax as it stands in books divides
-- exponentials, and in f32 exp(89) is infinite already: inf / inf is no number.
local z = gradus.tensor({100.0, 98.0, 95.0})
local function softmax(t) return t:exp() / t:exp():sum() end
print(softmax(z))

-- Softmax does not change when all its inputs move by the same amount, so first take the largest
-- away: the largest exponential is then 1. The op does so.
print(softmax(z - z:max()))
print(z:softmax(1))

-- The logarithm of a softmax can still be log(0). Written as z - max - log(sum(exp(z - max))) it is
-- exact, and its gradient is what one hopes for: the probabilities minus the target. cross_entropy
-- is minus that logarithm for the right class; classes count from 0, as in files, so class 1 is the
-- second.
local logits = gradus.tensor({{200.0, 0.0, 1.0}}, {requires_grad = true})
local class = gradus.tensor({1})
local book, op = -logits:softmax(2):log()[1][2], gradus.cross_entropy(logits, class)
print("by the book:", book:item(), "the op:", op:item())
print(gradus.grad(book, logits))
print(gradus.grad(op, logits))

-- Exercise: give relu weights of twice that deviation. What becomes of the gradient in twenty
-- layers? Say the power of two first.
--[==[ prints
layers   sigmoid     relu by He
   1     2.12e-01    0.97
   5     6.35e-04    1.01
  20     2.20e-13    1.09
[nan, nan, nan]
f32 (3,)
[0.8756, 0.1185, 0.0059]
f32 (3,)
[0.8756, 0.1185, 0.0059]
f32 (3,)
by the book:	inf	the op:	200.0
[[nan, nan, nan]]
f32 (1, 3)
[[ 1, -1,  0]]
f32 (1, 3)
]==]
