// First a tenth of the budget goes to searches that build a tree from nothing; the best trees are
// then annealed, each several times by other seeds, for the rest. Searches are tasks that share
// nothing, so threads change the time alone; of equally good orders the first task's is taken.
#include "ops/contract/plan/portfolio.hpp"

#include "ops/contract/plan/anneal.hpp"
#include "ops/contract/plan/dissect.hpp"
#include "ops/contract/plan/eliminate.hpp"
#include "ops/contract/plan/exact.hpp"
#include "ops/contract/plan/greedy.hpp"
#include "ops/contract/plan/simplify.hpp"

#include <atomic>
#include <exception>
#include <functional>
#include <thread>

namespace gradus::inline v1::plan {

namespace {

constexpr double kExactShare = 0.2;   // of the budget, before anything else is tried
constexpr double kBuildShare = 0.2;   // for trees from nothing
constexpr size_t kExactTensors = 40;  // above them the exact search is not tried unasked
constexpr double kHopeless = 0.1;     // units for each tensor: with less, no search gets to its end
constexpr double kNoLimit = 1e15;     // for the one search that always ends with an order
constexpr double kAnnealing = 600;  // units for each tensor: a longer annealing is worth less than
                                    // another one that begins with the best of the first

class Search {
 public:
  Search(const Network& network, uint64_t seed, double budget, int threads, const Watch& watch)
      : network_(network),
        seed_(seed),
        budget_(budget),
        watch_(watch),
        threads_(threads > 0 ? threads : int(std::thread::hardware_concurrency())) {}

  Order run(Family family) {
    if (network_.tensors.size() < 2) return {{}, {}, family, 0};
    switch (family) {
      case Family::portfolio:
        return portfolio();
      case Family::annealing:
        try_all({task(Family::random_greedy, 0, budget_ * kBuildShare)});
        if (best_.empty()) try_all({task(Family::greedy, 0, kNoLimit)});
        anneal_best(1);
        break;
      case Family::random_greedy:
        try_all({task(family, 0, budget_)});
        if (best_.empty()) try_all({task(Family::greedy, 0, kNoLimit)});
        break;
      default:
        try_all({task(family, 0, budget_)});
    }
    if (best_.empty())
      fail(ErrorKind::value, "einsum", "path ",
           family == Family::exact ? "optimal" : kFamilies[size_t(family)], " found no order of ",
           network_.tensors.size(), " tensors within ", budget_,
           " units of work; give a larger budget or another path");
    return result();
  }

 private:
  struct Task {
    Family family;
    double budget;
    std::function<SsaPath(Budget&)> search;
  };

  Task task(Family family, uint64_t more, double budget) {
    const Network& net = network_;
    const uint64_t seed = seed_ + more;
    switch (family) {
      case Family::exact:
        return {family, budget, [&net](Budget& b) { return exact(net, b); }};
      case Family::greedy:
        return {family, budget, [&net](Budget& b) { return greedy(net, {}, b); }};
      case Family::random_greedy:
        return {family, budget, [&net, seed](Budget& b) { return random_greedy(net, seed, b); }};
      case Family::min_fill:
        return {family, budget,
                [&net, seed](Budget& b) { return eliminate(net, Elimination::min_fill, seed, b); }};
      case Family::min_degree:
        return {family, budget, [&net, seed](Budget& b) {
                  return eliminate(net, Elimination::min_degree, seed, b);
                }};
      default:
        return {family, budget, [&net, seed](Budget& b) { return dissection(net, seed, b); }};
    }
  }

  // Runs tasks on all threads; their orders, the best first.
  void try_all(const std::vector<Task>& tasks) {
    std::vector<Order> found(tasks.size());
    std::vector<std::exception_ptr> errors(tasks.size());
    std::atomic<size_t> next = 0;
    const auto work = [&] {
      for (size_t i = next++; i < tasks.size(); i = next++) try {
          Budget left(tasks[i].budget);
          found[i] = {tasks[i].search(left), {}, tasks[i].family, 0};
          found[i].units = tasks[i].budget - left.left();
          if (!found[i].path.empty()) found[i].cost = cost_of(network_, found[i].path);
        } catch (...) {
          errors[i] = std::current_exception();
        }
    };
    std::vector<std::thread> others;
    for (int t = 1; t < std::min(threads_, int(tasks.size())); ++t) others.emplace_back(work);
    work();
    for (std::thread& t : others) t.join();
    for (const std::exception_ptr& e : errors)
      if (e) std::rethrow_exception(e);
    for (Order& o : found) {
      units_ += o.units;
      if (!o.path.empty()) best_.push_back(std::move(o));
    }
    std::stable_sort(best_.begin(), best_.end(), [](const Order& a, const Order& b) {
      return a.cost.log2_cost < b.cost.log2_cost;
    });
    if (watch_ && !best_.empty()) watch_(units_, best_.front().cost);
  }

  Order portfolio() {
    // Dissection needs more than the others for its first tree, and gives the best one most often.
    const double share = budget_ * kBuildShare / 8;
    if (share > kHopeless * double(network_.tensors.size()))
      try_all({task(Family::greedy, 0, share), task(Family::min_degree, 0, share),
               task(Family::min_fill, 0, share), task(Family::random_greedy, 0, share),
               task(Family::dissection, 0, 4 * share)});
    if (best_.empty()) try_all({task(Family::greedy, 0, kNoLimit)});  // some order there must be
    anneal_best(2);
    return result();
  }

  // What is left of the budget, in rounds; each anneals the `trees` best, by other seeds, and every
  // second one new trees as well.
  void anneal_best(size_t trees) {
    const double left = (budget_ - units_) / 4;
    const int rounds =
        int(std::clamp(left / (kAnnealing * double(network_.tensors.size())), 2., 12.));
    for (int round = 0; round < rounds; ++round) {
      const double share = (budget_ - units_) / (rounds - round) / 4;
      if (best_.empty() || share < 100) return;
      std::vector<Task> tasks;
      for (size_t k = 0; k < 4; ++k) {
        const uint64_t seed = seed_ + 1000 * uint64_t(round + 1) + k;
        const SsaPath start = best_[k % std::min(trees, best_.size())].path;
        const Task fresh = task(k % 2 ? Family::dissection : Family::random_greedy,
                                1000 * uint64_t(round + 1) + k, share / 8);
        const bool anew = round % 2 == 1 && k >= 2;  // the best may be where no annealing leads out
        tasks.push_back({Family::annealing, share, [=, this](Budget& b) {
                           if (!anew) return refine(network_, start, seed, b);
                           Budget some(fresh.budget);
                           SsaPath path = fresh.search(some);
                           b.spend(fresh.budget - some.left());
                           return path.empty() ? path : refine(network_, path, seed, b);
                         }});
      }
      try_all(tasks);
    }
  }

  Order result() {
    Order o = std::move(best_.front());
    o.units = units_;
    return o;
  }

  const Network& network_;
  const uint64_t seed_;
  const double budget_;
  const Watch& watch_;
  const int threads_;
  double units_ = 0;
  std::vector<Order> best_;
};

}  // namespace

Order find_order(const Network& network, Family family, uint64_t seed, double budget, int threads,
                 const Watch& watch) {
  const size_t n = network.tensors.size();
  if (family == Family::exact) return Search(network, seed, budget, threads, watch).run(family);
  const Simplified simple = simplify(network);
  const auto whole = [&](const SsaPath& rest, Family by, double units) {
    SsaPath path = expanded(simple, n, rest);
    const Cost cost = cost_of(network, path);
    return Order{std::move(path), cost, by, units};
  };
  if (family == Family::greedy) {  // one search, with whose order no other is compared
    Budget left(kNoLimit);
    Order order = whole(greedy(simple.network, {}, left), family, 0);
    order.units = kNoLimit - left.left();
    if (watch) watch(order.units, order.cost);
    return order;
  }
  double exact_units = 0;
  const bool counts_products = !network.time;  // as the exact search does
  if (family == Family::portfolio && counts_products && n > 1 && n <= kExactTensors) {
    // What simplification does is right to a factor, not to the last step; but it makes outer
    // products, which the exact search does not. So each has its turn.
    Budget left(budget * kExactShare);
    SsaPath path = exact(network, left);
    if (!path.empty()) {
      const Cost cost = cost_of(network, path);
      const SsaPath rest = exact(simple.network, left);
      const double units = budget * kExactShare - left.left();
      if (rest.size() + 1 >= simple.network.tensors.size()) {
        Order other = whole(rest, Family::exact, units);
        if (other.cost.log2_mults < cost.log2_mults) return other;
      }
      return {std::move(path), cost, Family::exact, units};
    }
    exact_units = budget * kExactShare - left.left();
  }
  const Order order =
      Search(simple.network, seed, budget - exact_units, threads, watch).run(family);
  return whole(order.path, order.family, order.units + exact_units);
}

}  // namespace gradus::plan
