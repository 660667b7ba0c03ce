#pragma once

#include <array>
#include <atomic>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "actors/system/system.h"
#include "tests/support/system_options.h"

namespace weft::actors {

/// Member of a pool, with methods that end at once, wait for open(), or fail.
class Solver final {
 public:
  explicit Solver(Context& context) : context_(context), gate_(context.make_wakeup()) {}

  std::int64_t rank() const { return context_.place().rank; }
  int square(int number) const { return number * number; }
  int product(int a, int b) const { return a * b; }
  void note(std::string) { ++noted; }
  /// Fails on the ranks below `first`.
  std::int64_t rank_from(std::int64_t first) const {
    if (rank() < first) throw Error(ErrorCode::kNotFound, "no such shelf");
    return rank();
  }
  /// Waits for open() on the ranks below `first`.
  task<std::int64_t> wait_below(std::int64_t first) {
    if (rank() < first) co_await wait();
    co_return rank();
  }
  /// Waits for open() on rank 0, except in a process named "next". Returns the rank that has done
  /// the item. May run twice.
  task<std::int64_t> claim(int) {
    ++claimed;
    if (rank() == 0 && context_.self().process.name != "next") co_await wait();
    co_return rank();
  }
  /// Like claim(), but runs at most once.
  task<std::int64_t> claim_once(int item) { return claim(item); }
  void open() { gate_.notify(); }
  void leave() { context_.exit("has enough"); }
  bool is_waiting() const { return waiting_; }

  double third() const { return 1.0 / static_cast<double>(3 + rank()); }
  std::vector<float> gradient(int size) const {
    return std::vector<float>(size, 0.5f * static_cast<float>(rank() + 1));
  }
  std::vector<double> of_rank_size() const { return std::vector<double>(2 + (rank() == 2), 1); }
  std::array<int, 2> pair() const { return {static_cast<int>(rank()), 10}; }
  int huge() const { return std::numeric_limits<int>::max(); }
  std::map<std::string, int> words() const {
    return {{"all", 1}, {"rank" + std::to_string(rank()), 1}};
  }
  static std::map<std::string, int> merge(std::map<std::string, int> a,
                                          const std::map<std::string, int>& b) {
    for (const auto& [word, count] : b) a[word] += count;
    return a;
  }
  std::string name() const { return std::to_string(rank()); }
  static std::string bracket(const std::string& a, const std::string& b) {
    return "(" + a + b + ")";
  }

  static inline std::atomic<int> claimed{0};
  static inline std::atomic<int> cancelled{0};
  static inline std::atomic<int> noted{0};
  static constexpr auto endpoints = interface<"test.solver", 1>(
      on<&Solver::rank>("rank"), on<&Solver::square>("square", idempotent),
      on<&Solver::product>("product"), on<&Solver::note>("note"),
      on<&Solver::rank_from>("rank_from"), on<&Solver::wait_below>("wait_below"),
      on<&Solver::claim>("claim", idempotent), on<&Solver::claim_once>("claim_once"),
      on<&Solver::open>("open", urgent), on<&Solver::is_waiting>("is_waiting", urgent),
      on<&Solver::third>("third"), on<&Solver::gradient>("gradient"),
      on<&Solver::of_rank_size>("of_rank_size"), on<&Solver::pair>("pair"),
      on<&Solver::huge>("huge"), on<&Solver::words>("words", reduce_with<&Solver::merge>),
      on<&Solver::name>("name", idempotent, reduce_with<&Solver::bracket>),
      on<&Solver::leave>("leave"));

 private:
  task<> wait() {
    waiting_ = true;
    try {
      co_await gate_.wait();
    } catch (const Error&) {
      ++cancelled;
      throw;
    }
  }

  Context& context_;
  Wakeup gate_;
  bool waiting_ = false;
};

/// Driver and a mesh of solvers, each in a process of its own, over real sockets.
struct Pool {
  explicit Pool(std::int64_t size) : driver(test::system_options("driver")) {
    Solver::claimed = 0;
    Solver::cancelled = 0;
    Solver::noted = 0;
    std::vector<ProcessRef> processes;
    for (std::int64_t i = 0; i < size; ++i) {
      workers.push_back(
          std::make_unique<System>(test::system_options("worker" + std::to_string(i))));
      workers.back()->provide<Solver>();
      processes.push_back(driver.connect(workers.back()->listen({"127.0.0.1", 0})));
    }
    mesh = std::make_unique<ActorMesh<Solver>>(
        driver.spawn_mesh<Solver>("pool", MeshShape{{"worker", size}}, processes));
  }
  /// Lets the driver take a worker for dead, as the parent of the process would report it.
  void kill(std::size_t rank) {
    driver.declare_dead(workers[rank]->self().id,
                        Error(ErrorCode::kPeerDied, workers[rank]->self().name + " died: SIGKILL"));
  }

  System driver;
  std::vector<std::unique_ptr<System>> workers;
  std::unique_ptr<ActorMesh<Solver>> mesh;  // destroyed first
};

}  // namespace weft::actors
