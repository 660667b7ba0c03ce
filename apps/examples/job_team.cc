// Actors that start actors: a manager spawns a team for each job, and stops it when the job is
// done. A team also stops with its manager.
#include <fmt/format.h>

#include <string>
#include <vector>

#include "actors/launch/app_main.h"

using namespace weft::actors;

/// Counts the primes of a range.
struct PrimeCounter {
  explicit PrimeCounter(Context&) {}
  int primes(int begin, int end) {
    int count = 0;
    for (int n = begin; n < end; ++n) {
      bool is_prime = n > 1;
      for (int d = 2; is_prime && d * d <= n; ++d) is_prime = n % d != 0;
      count += is_prime;
    }
    return count;
  }
  static constexpr auto endpoints =
      interface<"examples.prime_counter", 1>(on<&PrimeCounter::primes>("primes", idempotent));
};

struct Manager {
  explicit Manager(Context& own) : context(own) {}
  /// Counts the primes below `limit` with as many actors as `size` says.
  task<int> count_primes(std::string job, int limit, int size) {
    const std::string name = context.place().mesh + "-" + job;  // Unique in the run.
    auto spawning =
        context.spawn<PrimeCounter>(name, {{"worker", size}}, {.on_failure = one_for_one});
    const auto team = co_await spawning;
    std::vector<std::tuple<int, int>> parts;
    for (int begin = 0; begin < limit; begin += 1000) parts.emplace_back(begin, begin + 1000);
    auto results = team.map<&PrimeCounter::primes>(parts);
    int sum = 0;
    while (auto part = co_await results.next()) sum += part->result.value();
    co_await context.stop(team);
    co_return sum;
  }
  static constexpr auto endpoints =
      interface<"examples.manager", 1>(on<&Manager::count_primes>("count_primes"));
  Context& context;
};

int main(int argc, char** argv) {
  AppMain app(argc, argv);
  app.provide<PrimeCounter>();
  app.provide<Manager>();
  return app.run([](Cluster& cluster, const AppRun&) {
    const auto manager = cluster.spawn<Manager>("manager", {.restarts = 3});
    for (const int limit : {10'000, 100'000})
      fmt::print("primes below {}: {}\n", limit,
                 manager.call<&Manager::count_primes>("job", limit, 2).get());
    return 0;
  });
}
