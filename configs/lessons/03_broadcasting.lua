-- Broadcasting, and the sum that undoes it
--
-- A row of three is added to a matrix of two rows: the row is used in each of them. That is
-- broadcasting: shapes are laid over each other from their last axis on, and where one has no axis,
-- or one of size 1, it is used again and again. Used twice, so by the last lesson its gradients add
-- up: over the rows. (detach() gives the same numbers without their history.)
local x = gradus.tensor({{1.0, 2.0, 3.0}, {4.0, 5.0, 6.0}}, {requires_grad = true})
local bias = gradus.tensor({0.1, 0.2, 0.3}, {requires_grad = true})
local y = x + bias
print(y:detach())

-- Backward begins at a single number with its own slope, 1. y has six, so say with what each of
-- them begins: how much it would count in whatever comes behind y. That is a cotangent of y's
-- shape. Here each element has one of its own, to see where it goes.
local g = gradus.tensor({{1.0, 10.0, 100.0}, {2.0, 20.0, 200.0}})
y:backward(g)
print(x.grad)
print(bias.grad)
print("the sum over the rows: ", bias.grad:equal(g:sum(1)))  -- axes count from 1

-- So a rule without exceptions: the gradient has the shape of its value, and what was spread
-- forward is summed backward. A number that is added to everything gets the sum of everything.
-- gradus.grad(y, x, g) is a backward from y with g that hands over the gradient by x, and leaves
-- x.grad alone.
local s = gradus.tensor(0.0, {requires_grad = true})
print("of a single number: ", gradus.grad(x + s, s, g):item(), "of ", g:sum():item())

-- The other way round, what was summed forward is spread backward: of a mean of six numbers each
-- gets a sixth.
print(gradus.grad(x:mean(), x))

-- Exercise: let bias be a column, {{0.1}, {0.2}}. Over which axis must its gradient be summed now,
-- and what is it? g:sum{dim = 2, keepdim = true} keeps the axis, with size 1.
--[==[ prints
[[1.1, 2.2, 3.3],
 [4.1, 5.2, 6.3]]
f32 (2, 3)
[[  1,  10, 100],
 [  2,  20, 200]]
f32 (2, 3)
[  3,  30, 300]
f32 (3,)
the sum over the rows: 	true
of a single number: 	333.0	of 	333.0
[[0.1667, 0.1667, 0.1667],
 [0.1667, 0.1667, 0.1667]]
f32 (2, 3)
]==]
