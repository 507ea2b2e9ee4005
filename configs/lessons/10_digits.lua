-- A network learns to read
--
-- Everything so far in one loop. The network is two linear layers with a relu between them, the
-- data are digits that the program draws itself, 28 by 28 pixels.
gradus.seed(1)
local data = gradus.data{name = "digits", train = 2000, test = 500}
local net = gradus.nn({{linear = 64}, "relu", {linear = 10}}, {1, data.rows * data.cols})
local adam = gradus.optim.adam(net:parameters(), {lr = 3e-3})

-- One step: forward to a single number, backward to a gradient for each parameter, and a small move
-- of each against its gradient, for which adam keeps means of past gradients. Three passes over
-- 2000 images in batches of 50. cross_entropy is small where the right class has most of the
-- softmax; argmax(2) is the class that has most; under no_grad nothing is recorded.
for epoch = 1, 3 do
  local total = 0
  for at = 1, 2000, 50 do
    local rows = {{at, at + 49}}
    local loss = gradus.cross_entropy(net(data.train_inputs[rows]), data.train_labels[rows])
    adam:zero_grad()
    loss:backward()
    adam:step()
    total = total + loss:item() * 50
  end
  local said = gradus.no_grad(function() return net(data.test_inputs):argmax(2) end)
  local right = said:eq(data.test_labels):sum():item()
  print(string.format("epoch %d  loss %.3f  right %d of 500", epoch, total / 2000, right))
end

-- What does it see? An image of the test set, and what the softmax of its ten outputs says of it.
local image = data.test_inputs[3]:reshape({28, 28}):totable()
local share = net(data.test_inputs[{{3, 3}}]):detach():softmax(2)[1]
for row = 3, 26, 2 do  -- a letter is twice as high as wide
  local line = ""
  for col = 3, 26 do
    local ink = (image[row][col] + image[row + 1][col]) / 2
    line = line .. (ink > 0.6 and "#" or ink > 0.25 and "+" or ".")
  end
  print(line)
end
local says, label = share:argmax():item(), data.test_labels[3]:item()
print(string.format("It is a %d, by %.2f; the label is %d.", says, share:max():item(), label))

-- Exercise: train with the first 200 images, in batches of 10, for ten epochs. How many of the 500
-- are right now, and how many of the 200? The difference is called overfitting.
--[==[ prints
epoch 1  loss 1.031  right 458 of 500
epoch 2  loss 0.184  right 476 of 500
epoch 3  loss 0.092  right 480 of 500
........................
..............+##.......
.............+##+.......
...........###+.........
.........+##+...........
........+####++.........
.......####++###+.......
......+##+....+##.......
......+##+....+##.......
.......###....##+.......
........####+##+........
..........++++..........
It is a 6, by 1.00; the label is 6.
]==]
