// gradus.blocks: legs, block tensors, einsum of them, decompositions, captured steps, and what is
// refused, in words that a script can use.
#include "tests/helpers/lua_helpers.hpp"

#include <doctest/doctest.h>

using namespace gradus;
using gradus::test::check_has;
using gradus::test::fails;
using gradus::test::Lua;
using gradus::test::says;

namespace {
// A leg i of 7, a matrix x and a vector's worth of other things, in whole numbers.
const std::string kBegin =
    "local b = gradus.blocks local i = b.leg(1, {{-1, 2}, {0, 3}, {1, 2}}) local f64 = {dtype = "
    "'f64'} local x = b.zeros({i, i:reversed()}, f64) x.data:copy_(gradus.arange(1, 18)) ";

void refused(const std::string& text, std::initializer_list<const char*> words) {
  CAPTURE(text);
  const std::string said = fails(kBegin + text);
  CHECK(said.starts_with("test.lua:1: "));
  for (const char* w : words) check_has(said, w);
}
void refused_as(ErrorKind kind, const std::string& text, std::initializer_list<const char*> words) {
  CAPTURE(text);
  const std::string said = fails(kBegin + text, kind);
  for (const char* w : words) check_has(said, w);
}
}  // namespace

TEST_CASE("lua blocks: legs") {
  CHECK(says(kBegin + "print(i, i.size, i.count, i.arrow, i:reversed().arrow, #i.sectors, "
                      "i.sectors[1][1], i.sectors[1][2], i.neutral, #i.parts)") ==
        "leg + {-1: 2, 0: 3, 1: 2}, U(1)\t7\t3\t1\t-1\t3\t-1\t2\tfalse\t0");
  CHECK(says(kBegin + "print(i == b.leg(1, {{-1, 2}, {0, 3}, {1, 2}}), i == i:reversed(), "
                      "i:reversed():reversed() == i)") == "true\tfalse\ttrue");
  CHECK(says("local leg = gradus.blocks.leg for _, s in ipairs{'U(1)', 'Z3', 'fZ2', 'U(1) x fZ2', "
             "'U(1) x Z2 (odd)'} do print(leg(1, {}, {symmetry = s}).symmetry) end") ==
        "U(1)|Z3|Z2 (odd)|U(1) x Z2 (odd)|U(1) x Z2 (odd)");
  CHECK(says("print(gradus.blocks.leg(-1, {{{0, 1}, 2}, {{1, 0}, 1}}, {mods = {0, 2}, parity = "
             "{2}}))") == "leg - {(0, 1): 2, (1, 0): 1}, U(1) x Z2 (odd)");
  refused("b.leg(2, {{0, 1}})", {"arrow is 1", "or -1"});
  refused("b.leg(1, {{0, 1, 2}})", {"leg: sector 1: expected {charge, size}"});
  refused("b.leg(1, {{0, -1}})", {"the sector of charge 0 has size -1"});
  refused("b.leg(1, {{0.5, 1}})", {"sector 1: expected a whole number, got 0.5"});
  refused("b.leg(1, {}, {symmetry = 'SU(2)'})", {"\"SU(2)\" is none", "fU(1)"});
  refused("b.leg(1, {}, {symmetry = 'Z1'})", {"is none"});
  refused("b.leg(1, {}, {symetry = 'Z2'})", {"did you mean \"symmetry\"?"});
  refused("b.leg(1, {}, {mods = {2}, parity = {2}})", {"component 2", "count from 1"});
  refused("return i.siz", {"did you mean \"size\"?"});
  refused("b.leg(2, {{0, 1}})", {"got 2"});
  refused("b.leg(1, {[-1] = 2, [0] = 3})", {"{{charge, size}, ...}", "with the key "});
  refused("b.leg(1, {{0, 1}, size = 3})", {"with the key size"});
  refused("b.leg(1, {}, {symmetry = 'Z3', parity = {1}})",
          {"component 0 is of Z_3", "count from 0, in Lua from 1"});
  refused("i.size = 3", {"a leg stays as it is"});
  refused("return #i", {"leg.count"});
  CHECK(fails(kBegin + "b.leg(1, {{0, -1}})").find("in Lua from 1") == std::string::npos);
}

TEST_CASE("lua blocks: made, printed, taken apart") {
  CHECK(says(kBegin + "print(x)") ==
        "17 elements of 49 in 3 blocks, U(1), charge 0|  leg 1: + {-1: 2, 0: 3, 1: 2}|"
        "  leg 2: - {-1: 2, 0: 3, 1: 2}|  f64 on cpu|block (-1, -1)|[[1, 2],| [3, 4]]|"
        "block (0, 0)|[[ 5,  6,  7],| [ 8,  9, 10],| [11, 12, 13]]|block (1, 1)|[[14, 15],|"
        " [16, 17]]");
  CHECK(says(kBegin + "x:requires_grad_() print((tostring(2 * x):gsub('.*]]', '')))") ==
        ", grad_fn = mul");
  CHECK(says(kBegin + "print(x.rank, x.shape, x.elements, x.count, x.charge, x.symmetry, x.dtype, "
                      "x.device, x.requires_grad, x.legs[2] == i:reversed(), x.blocks[2][1])") ==
        "2\t(7, 7)\t17\t3\t0\tU(1)\tf64\tcpu\tfalse\ttrue\t2");
  CHECK(says(kBegin + "print(x:block(1, 1), x:block({3, 3})[1])") ==
        "[[1, 2],| [3, 4]]|f64 (2, 2)\t[14, 15]|f64 (2,)");
  CHECK(says(kBegin + "local y = x:set_block({1, 1}, {{0, 0}, {0, 7}}) print(y.data:sum():item(), "
                      "x.data:sum():item())") == "150.0\t153.0");
  CHECK(says(kBegin + "x:block(1, 1):fill_(0) print(x.data:sum():item())") == "143.0");
  CHECK(says(kBegin + "local d = x:to_dense() print(d.shape, d:sum():item(), "
                      "b.from_dense(d, x.legs).data:equal(x.data))") == "(7, 7)\t153.0\ttrue");
  CHECK(says("local leg = gradus.blocks.leg(1, {{0, 2}, {1, 1}}, {symmetry = 'Z2'}) local x = "
             "gradus.blocks.rand({leg, leg, leg}, {charge = 1, dtype = 'c64', requires_grad = "
             "true}) print(x.charge, x.count, x.dtype, x.requires_grad, x.is_leaf)") ==
        "1\t4\tc64\ttrue\ttrue");
  CHECK(says(kBegin +
             "print(b.is(x), b.is(1), b.is(x.data), x:to('f32').dtype, "
             "x:detach().data:equal(x.data), x:with_data(x.data * 0).data:sum():item())") ==
        "true\tfalse\tfalse\tf32\ttrue\t0.0");
  CHECK(says("gradus.seed(1) local leg = gradus.blocks.leg(1, {{0, 40}}) local x = "
             "gradus.blocks.randn({leg, leg:reversed()}) print(x.dtype, x:norm():item() > 36, "
             "x:norm():item() < 44)") == "f32\ttrue\ttrue");
}

TEST_CASE("lua blocks: arithmetic, and blocks moved about") {
  CHECK(says(kBegin + "print((x + x).data:sum():item(), (x - 2 * x).data:sum():item(), "
                      "(x / 2).data:sum():item(), (-x).data:sum():item(), "
                      "(x * gradus.tensor(3.0)).data:sum():item())") ==
        "306.0\t-153.0\t76.5\t-153.0\t459.0");
  CHECK(says(kBegin + "local y = x:permute(2, 1) print(y.legs[1], y:block(1, 1)[1], "
                      "y:permute({-1, 1}).data:equal(x.data))") ==
        "leg - {-1: 2, 0: 3, 1: 2}, U(1)\t[1, 3]|f64 (2,)\ttrue");
  CHECK(says(kBegin +
             "local y = x:fuse(1, 2) print(y.rank, y.shape, y:split(1).data:equal(x.data), "
             "x:fuse(1, 2, -1).legs[1].arrow)") == "1\t(49,)\ttrue\t-1");
  CHECK(says(kBegin +
             "local y = x:slice(1, {{0, 1}, {}, {2}}) print(y.legs[1], y.data:sum():item())") ==
        "leg + {-1: 1, 0: 3}, U(1)\t84.0");
  CHECK(says(kBegin + "print(x:trace(1, 2):item(), x:norm():item() ^ 2, x:inner(x):item(), "
                      "x:scale(2, {1, 0, 0, 0, 0, 0, 0}).data:sum():item())") ==
        "63.0\t1785.0\t1785.0\t4.0");
  CHECK(says(kBegin + "print(x:map('tanh').data:equal(x.data:tanh()), "
                      "x:square().data:sum():item(), x:conj().legs[1].arrow)") ==
        "true\t1785.0\t-1");
  CHECK(says("local b = gradus.blocks local n = b.leg(1, {{0, 3}}) local i = b.leg(1, {{0, 1}, {1, "
             "1}}) local x = b.zeros({n, i, i:reversed()}) x.data:fill_(1) print(x:sum(1))")
            .find("block (0, 0)|[[3]]") != std::string::npos);
}

TEST_CASE("lua blocks: einsum, its plan, derivatives, captured steps") {
  const std::string same = "local function near(a, c) return (a - c):norm():item() < 1e-10 end ";
  CHECK(says(kBegin + same +
             "local d = x:to_dense() print(near(gradus.einsum('ij,jk->ik', x, x):to_dense(), "
             "d:matmul(d)), near(gradus.einsum('ij,jk->ik', {x, x}):to_dense(), d:matmul(d)), "
             "gradus.einsum('ii', x):item(), near(gradus.einsum('ij,jk,kl->il', x, x, "
             "x):to_dense(), d:matmul(d):matmul(d)))") == "true\ttrue\t63.0\ttrue");
  CHECK(says(kBegin + "local p = b.plan('ij,jk->ik', x, x) print(p) print(p.flops, p.dense_flops, "
                      "p.pairs, #p.order, p.equation)") ==
        "ij,jk->ik: 1 step, 3 pairs of blocks, 86 flops; of dense tensors "
        "686|86.0\t686.0\t3\t1\tij,jk->ik");
  CHECK(says(kBegin + "x:requires_grad_() local y = gradus.einsum('ij,ij->', x:conj(), x) "
                      "y:backward() print(x.grad.data:equal(2 * x.data), x.grad.count) "
                      "x:zero_grad() print(x.grad)") == "true\t3|nil");
  CHECK(says(kBegin + "x:requires_grad_() gradus.einsum('ij,jk->ik', x, x).data:sum():backward() "
                      "print(x.grad.elements, x.grad.legs[1] == i) print(gradus.no_grad(function() "
                      "return (x * 2).requires_grad end))") == "17\ttrue|false");
  CHECK(says(kBegin + "local w = b.randn(x.legs):requires_grad_() print(gradus.audit.health("
                      "function() return w:norm() end).parameters[1].name)") == "w");
  // A step that contracts blocks, replayed: the same bits, and the optimiser's steps count.
  CHECK(
      says(kBegin +
           "local w = b.randn(x.legs, f64):requires_grad_() local opt = gradus.optim.sgd({w.data}, "
           "{lr = 1e-3}) local function f(t) opt:zero_grad() local y = gradus.einsum('ij,jk->ik', "
           "x:with_data(t), w):tanh() local loss = y:inner(y) loss:backward() opt:step() return "
           "loss end local before = w.data:clone() local plain = {} for k = 1, 4 do plain[k] = "
           "f(x.data / 20):item() end gradus.no_grad(function() w.data:copy_(before) end) local "
           "step = gradus.capture(f, {required = true}) local same = true for k = 1, 4 do same = "
           "same and step(x.data / 20):item() == plain[k] end print(same, step.replays, "
           "plain[4] < plain[1])") == "true\t2\ttrue");
  CHECK(says(kBegin + "local h = gradus.einsum('ij,kj->ik', x, x:conj():permute(2, 1):permute(2, "
                      "1)) print(h.shape)") == "(7, 7)");
}

TEST_CASE("lua blocks: decompositions") {
  const std::string same = "local function near(a, c) return (a - c):norm():item() < 1e-10 end ";
  CHECK(
      says(kBegin + same +
           "x = x + 3 * b.from_dense(gradus.eye(7, 7, f64), x.legs) local u, s, vh, out, bond = "
           "x:svd() print(near(gradus.einsum('ij,jk->ik', u:scale(2, s), vh).data, x.data), out, "
           "bond.size, s.shape) local q, r = x:qr({1}) print(near(gradus.einsum('ij,jk->ik', q, "
           "r).data, x.data)) local one = gradus.einsum('ij,jk->ik', x:inv(), x) "
           "print(near(one:to_dense(), gradus.eye(7, 7, f64)), near(x:det(), x:to_dense():det()), "
           "near(x:solve(x).data, one.data))") == "true\t0.0\t7\t(7,)|true|true\ttrue\ttrue");
  // Of no rows there is one value, the norm.
  CHECK(says(kBegin + "local u, s, vh = x:svd({}) print(u.rank, s.shape, vh.rank, (s - "
                      "x:norm()):abs():amax():item() < 1e-12, #x:svd({1}, {}).legs)") ==
        "1\t(1,)\t3\ttrue\t2");
  // Of fermions the adjoint has signs that the conjugate lacks: eigh gives it.
  CHECK(
      says("local b = gradus.blocks local f = b.leg(1, {{0, 2}, {1, 2}}, {symmetry = 'fZ2'}) "
           "local x = b.randn({f, f:reversed()}, {dtype = 'f64'}) local h = x + "
           "b.from_dense(x:to_dense():t(), x.legs) local w, v, right = h:eigh() "
           "print((gradus.einsum('ij,jk->ik', v:scale(2, w), right) - h):norm():item() < 1e-12)") ==
      "true");
  CHECK(says(kBegin + same +
             "local h = x + x:permute(2, 1):conj() local w, v = h:eigh() print(w.shape, "
             "near(gradus.einsum('ij,kj->ik', v:scale(2, w), v:conj()).data, h.data))") ==
        "(7,)\ttrue");
  CHECK(says(kBegin + "local _, s, _, out, bond = x:svd({1}, {rank = 3}) print(bond, out > 0, "
                      "s.shape) print(select(5, x:svd({rank = 3, least = 1}))) print(select(5, "
                      "x:svd({sizes = {{0, 1}, {1, 2}}})))") ==
        "leg + {-1: 1, 0: 1, 1: 1}, U(1)\ttrue\t(3,)"
        "|leg + {-1: 1, 0: 1, 1: 1}, U(1)|leg + {0: 1, 1: 2}, U(1)");
  const std::string tie =
      "local b = gradus.blocks local i = b.leg(1, {{-1, 1}, {0, 1}, {1, 1}}) "
      "local x = b.zeros({i, i:reversed()}) x.data:copy_(gradus.tensor{2, 3, "
      "2}) print(select(5, x:svd{rank = 2, ties = ";
  CHECK(says(tie + "'widen'}).size)") == "3");
  CHECK(says(tie + "'index'}).size)") == "2");
  CHECK(says(kBegin +
             "local y = b.randn({i, i:reversed()}, {charge = 1, dtype = 'f64'}) local u, s, "
             "vh = y:svd({charge = 'left'}) print(u.charge, vh.charge) u, s, vh = "
             "y:svd({1}, {charge = 'right'}) print(u.charge, vh.charge)") == "1\t0|0\t1");
}

TEST_CASE("lua blocks: files, and maps of block tensors") {
  const gradus::test::TempFolder folder;
  const std::string file = "'" + (folder / "a.safetensors") + "'";
  CHECK(says(kBegin + "b.save(" + file + ", {x = x, y = x:fuse(1, 2)}) local t = b.load(" + file +
                 ") print(t.x.data:equal(x.data), t.x.legs[1] == i, t.y:split(1).rank)",
             gradus::test::writing_in(folder)) == "true\ttrue\t2");
  check_has(
      fails(kBegin + "b.save(" + file + ", x)", ErrorKind::value, gradus::test::writing_in(folder)),
      "expected a table {name = block tensor}, got a block tensor");
  check_has(fails("gradus.blocks.load('/etc/hostname')", ErrorKind::io), "hostname");
  CHECK(says(kBegin + "local h = x + x:permute(2, 1):conj() local function map(d) return "
                      "gradus.einsum('ij,jk->ik', h, x:with_data(d)).data end local w = "
                      "gradus.func.eigsh(map, b.randn(x.legs, f64).data, {which = 'SA'}) "
                      "print((w[1] - h:eigh():amin()):abs():item() < 1e-9)") == "true");
}

TEST_CASE("lua blocks: einsum by lists of labels is einsum by letters") {
  CHECK(says(kBegin + "local want = gradus.einsum('ij,jk->ik', x, x).data "
                      "print(gradus.einsum({x, x}, {{1, 2}, {2, 3}}, {1, 3}).data:equal(want), "
                      "gradus.einsum(x, {7, -2}, x, {-2, 9}, {7, 9}).data:equal(want), "
                      "gradus.einsum({x, x}, {{1, 2}, {2, 3}}).data:equal(want), "
                      "b.plan({x, x}, {{1, 2}, {2, 3}}, {1, 3}).flops, "
                      "gradus.einsum({x}, {{1, 1}}, {}):item())") ==
        "true\ttrue\ttrue\t86.0\t" +
            says(kBegin + "io = nil local t = x:trace(1, 2) print(t:item())"));
}

TEST_CASE("lua blocks: fermions") {
  const std::string begin =
      "local b = gradus.blocks local f = b.leg(1, {{0, 1}, {1, 1}}, {symmetry = 'fZ2'}) local x = "
      "b.zeros({f, f}) x.data:copy_(gradus.tensor{2, 3}) ";
  CHECK(says(begin + "print(x:permute({2, 1}, {signs = true}).data)") == "[ 2, -3]|f32 (2,)");
  CHECK(says(begin + "print(gradus.einsum('ab->ba', x).data, gradus.einsum('ab,ab->', x:conj(), "
                     "x):item())") == "[ 2, -3]|f32 (2,)\t13.0");
  check_has(fails(begin + "x:permute(2, 1)"), "a sign is needed");
  check_has(fails(begin + "x:permute(2, 1)"), "{signs = true}");
}

TEST_CASE("lua blocks: what is refused, and in which words") {
  refused("return x + 1", {"add: a number", "dense", "to_dense() makes"});
  refused("return 1 - x", {"sub: a number", "to_dense()"});
  refused("return x:exp()", {"exp(0) is 1", "to_dense()"});
  refused("return x:cos()", {"cos(0) is 1", "to_dense()"});
  refused("return x:map('exp')", {"exp(0) is 1", "to_dense()"});
  refused("return x:reshape(49)", {"has no \"reshape\"", "fused and split", "to_dense()"});
  refused("return x:softmax(1)", {"has no \"softmax\"", "x.data:softmax()"});
  refused("return x:matmul(x)", {"gradus.einsum"});
  refused("return x:transpose(1, 2)", {"x:permute(2, 1)"});
  refused("return x:fus(1, 2)", {"did you mean \"fuse\"?"});
  refused("return x[1]", {"x:block({1, 2})"});
  refused("return x * x", {"einsum", "with_data"});
  refused("return 1 / x", {"div"});
  refused("return gradus.exp(x)", {"exp", "got a block tensor", "x.data"});
  refused("return x + gradus.ones(7, 7)", {"right operand: expected a block tensor, got a tensor"});
  refused("gradus.einsum('ij,jk->ik', x, gradus.ones(7, 7))", {"operand 2", "from_dense"});
  refused("gradus.einsum('ij,kj->ik', x, x)", {"\"j\"", "-1 and -1"});
  refused("gradus.einsum(x, {1, 2}, x, {3, 2}, {1, 3})", {"label 2", "-1 and -1"});
  refused("gradus.einsum({x, x}, {{1, 2}, {2, 3}}, {1, 3}, 'max-plus')",
          {"standard algebra alone"});
  refused("gradus.einsum('ij,jk->ik', x, x, 'max-plus')", {"standard algebra alone"});
  refused("gradus.einsum(x)", {"\"ij,jk->ik\"", "labels"});
  refused("gradus.einsum({x}, {{1, 2}, {3, 4}}, {1})", {"labels for each", "got 1 and 2"});
  refused("gradus.einsum({x, gradus.ones(7, 7)}, {{1, 2}, {2, 3}})", {"operand 2", "from_dense"});
  refused("x:block(1, 2)",
          {"sum to -1", "leg 1, in its sector 1 of charge 0, would fit in sector 0"});
  refused("gradus.einsum('ij,jk,kl->ijl', x, x, x)", {"\"j\"", "neutral"});
  refused("gradus.einsum('ij,jk->i', x, x)", {"\"k\"", "charge"});
  refused(
      "local y = b.zeros({b.leg(1, {{-1, 2}, {0, 4}, {1, 2}}), i:reversed()}, f64) "
      "gradus.einsum('ij,jk->ik', x, y)",
      {"\"j\"", "sector 1", "size 3", "size 4"});
  refused(
      "local z = b.leg(1, {{0, 7}}, {symmetry = 'Z2'}) gradus.einsum('ij,jk->ik', x, "
      "b.zeros({z, z:reversed()}, f64))",
      {"U(1)", "Z2"});
  refused("return x + b.zeros(x.legs, {charge = 1})", {"charges 0 and 1"});
  refused("return x + b.zeros({i, i})", {"axis 1", "arrow", "in Lua from 1"});
  refused("local d = x:to_dense() d[{1, 7}] = 0.5 b.from_dense(d, x.legs)",
          {"(0, 6)", "0.5", "charge is -2", "tolerance"});
  refused("x:set_block({1, 2}, gradus.zeros(2, 3))", {"sum to -1", "charge is 0"});
  refused("x:split(1)", {"leg 0", "not fused", "in Lua from 1"});
  refused("x:fuse(2, 2)", {"two neighbours"});
  refused("x:fuse(1, 1)", {"two neighbours"});
  refused("x:sum()", {"which leg", "x.data:sum()"});
  refused("x:sum(1)", {"axis 0", "not 0", "in Lua from 1"});
  refused("b.zeros({i, i}):trace(1, 2)", {"0 and 1", "+1 and +1"});
  refused("b.zeros(x.legs, {charge = 1}):svd()", {"charge 1", "left or right"});
  refused("x:svd({ties = 'both'})", {"ties", "widen or index"});
  refused("x:svd({rang = 2})", {"did you mean \"rank\"?"});
  refused("gradus.einsum('ij,kl->ijkl', x, x):svd()", {"which axes are the rows", "{1, 2}"});
  refused("x:item()", {"2 legs"});
  refused("x:backward()", {"2 legs", "x.data:backward(seed)"});
  refused("b.zeros({})", {"one leg or more"});
  refused("b.zeros({i, 3})", {"legs[2]"});
  refused("b.zeros({i}, {chrge = 1})", {"did you mean \"charge\"?"});
  refused("x.block(1, 1)", {"block"});
  refused_as(ErrorKind::shape,
             "local j = b.leg(1, {{-1, 2}, {0, 4}, {1, 2}}) b.zeros({i, j:reversed()}):inv()",
             {"sector 0", "3 rows and 4 columns"});
  refused_as(ErrorKind::index, "x:permute(0, 1)", {"Lua counts from 1"});
  refused_as(ErrorKind::index, "x:trace(1, 3)", {"in Lua from 1"});
  refused_as(ErrorKind::index, "x:block(1, 4)", {"leg 1 has no sector 3", "in Lua from 1"});
}

TEST_CASE("lua blocks: what options may be, and which op says so") {
  refused("x:svd{rtol = -1}", {"svd: rtol: expected 0 or more, got -1"});
  refused("x:svd{atol = -0.5}", {"svd: atol: expected 0 or more, got -0.5"});
  refused("x:svd{rtol = 0/0}", {"svd: rtol: expected 0 or more, got "});
  refused("x:svd{rank = -2}", {"svd: rank: expected 0 or more, got -2"});
  refused("x:svd{rank = 1.5}", {"svd: rank: expected a whole number, got 1.5"});
  refused("x:svd{ties = 'both'}", {"svd: ties: expected widen or index, got \"both\""});
  refused("x:qr{charge = 'up'}", {"qr: charge: expected left or right, got \"up\""});
  refused("x:eigh{degenerate = 'up'}", {"eigh: degenerate: expected exact or safe"});
  refused("x:svd{sizes = {[0] = 1}}", {"svd: sizes: expected a list", "the key 0"});
  refused("b.from_dense(x:to_dense(), x.legs, {tolerance = -1})", {"from_dense: tolerance"});
  CHECK(fails(kBegin + "x:svd{sizes = {{0, -2}}}").find("in Lua from 1") == std::string::npos);
}

TEST_CASE("lua blocks: messages count as they say, and know what was given") {
  refused("x:permute(1, 1)", {"dims (0, 0)", "in Lua from 1"});
  refused_as(ErrorKind::index, "x:slice(1, {{-1, 1}, {}, {}})",
             {"range 0 is [-1", "in Lua from 1"});
  refused_as(ErrorKind::shape, "gradus.einsum('i,jk->ik', x, x)",
             {"operand 0 has 2 legs", "in Lua from 1"});
  refused("local f = b.leg(1, {{0, 1}, {1, 1}}, {symmetry = 'fZ2'}) b.zeros({f, f}):permute(2, 1)",
          {"in block 1", "in Lua from 1"});
  refused("gradus.einsum('ij,jk->ikk', x, x)",
          {"einsum: output label \"k\" is repeated", "block tensors have no such diagonals"});
  refused("b.plan('ij,jk->ikk', x, x)", {"blocks.plan: output label \"k\"", "no such diagonals"});
  refused("b.plan('ij,kj->ik', x, x)", {"test.lua:1: blocks.plan: label \"j\""});
  refused("b.zeros(i)", {"expected a table of legs, got a leg"});
  refused("return x * gradus.identity(7)", {"got a classed tensor"});
  refused("return gradus.identity(7) * x", {"mul: right operand", "got a block tensor"});
  refused("return gradus.checkpoint(function(y) return y end, x)",
          {"checkpoint: input: expected a tensor", "got a block tensor"});
  refused_as(ErrorKind::shape, "return gradus.ones(7, 7) * x", {"mul: ", "(7, 7)"});
  refused("return gradus.ones(7, 7) - x", {"sub: left operand: expected a block tensor"});
  refused("return gradus.ones(7, 7) ^ x", {"x:with_data(x.data ^ 2)"});
  CHECK(says(kBegin + "print((gradus.tensor(3.0) * x).data:sum():item())") == "459.0");
  refused("return gradus.einsum('ij,jk->ik', {gradus.ones(7, 7), x})",
          {"operand 1 is a dense tensor beside block tensors"});
  for (const char* text : {"return x ^ 2", "return x % 2", "return x // 2"})
    refused(text, {"x:with_data(x.data ^ 2)"});
  refused("return #x", {"x.rank legs"});
  refused("x.a = 1", {"\"a\" can't be set", "x:with_data(t)"});
  refused("x[1] = 1", {"x:set_block({1, 2}, t)"});
  CHECK(says(kBegin + "x.requires_grad = true print(x.requires_grad) x:norm():backward() "
                      "x.grad = nil print(x.grad)") == "true|nil");
  CHECK(fails(kBegin + "return x.foo").find("did you mean") == std::string::npos);
}

TEST_CASE("lua blocks: blocks hold numbers, not bool") {
  refused_as(ErrorKind::dtype, "b.zeros({i}, {dtype = 'bool'})", {"zeros: dtype", "not bool"});
  refused_as(ErrorKind::dtype, "x:to('bool')", {"not bool"});
  refused_as(ErrorKind::dtype, "x:with_data(x.data:gt(3))", {"not bool"});
  refused_as(ErrorKind::dtype, "b.from_dense(x:to_dense():gt(3), x.legs)", {"not bool"});
}

TEST_CASE("lua blocks: names continue, help has a line") {
  Lua lua;
  lua("x = gradus.blocks.zeros({gradus.blocks.leg(1, {{0, 1}})})");
  const auto names = [&](const char* text) {
    std::string all;
    for (const std::string& s : lua.script.complete(text)) all += s + " ";
    return all;
  };
  check_has(names("x:per"), "x:permute");
  check_has(names("x.el"), "x.elements");
  check_has(names("gradus.blocks.from"), "gradus.blocks.from_dense");
  check_has(lua::help_line("blocks"), "from_dense");
}
