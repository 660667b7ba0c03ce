// An actor class, a mesh of two such actors, and calls to one of them, to all, and to a slice.
#include <fmt/ranges.h>

#include "actors/launch/app_main.h"

using namespace weft::actors;

/// Lives in another process than main(). Other processes call the methods that `endpoints` lists.
struct Greeter {
  using Arguments = std::tuple<std::string>;
  Greeter(Context& context, const std::string& greeting) : name(context.name()), word(greeting) {}
  std::string greet(std::string to) { return fmt::format("{} {} from {}", word, to, name); }
  static constexpr auto endpoints = interface<"hello.greeter", 1>(on<&Greeter::greet>("greet"));
  std::string name, word;
};

int main(int argc, char** argv) {
  AppMain app(argc, argv);
  app.provide<Greeter>();
  return app.run([](Cluster& cluster, const AppRun&) {
    auto greeters = cluster.spawn<Greeter>("greeters", {{"row", 2}, {"column", 1}}, {}, "hello");
    fmt::print("{}\n", greeters.at({1, 0}).call<&Greeter::greet>("one").get());
    fmt::print("{}\n", greeters.call<&Greeter::greet>("all").get());
    fmt::print("{}\n", greeters.slice({{"row", 0}}).call<&Greeter::greet>("slice").get());
    return 0;
  });
}
