// Minimal complete program: spawns a mesh of an actor class, calls one actor, all actors and a
// slice, catches a remote exception, and shuts down.
//
//   hello_mesh                       on a cluster of its own on this machine
//   hello_mesh --head HOST:PORT      on the cluster of that head
#include <fmt/format.h>
#include <unistd.h>

#include "actors/launch/app_main.h"
#include "core/base/error.h"

using weft::actors::Cluster, weft::actors::Context;

/// Actor that greets with its name in the mesh and counts its greetings.
class Greeter final {
 public:
  using Arguments = std::tuple<std::string>;
  Greeter(Context& context, std::string word) : context_(context), word_(std::move(word)) {}

  std::string greet(std::string whom) {
    ++greetings_;
    return fmt::format("{} {} from {}", word_, whom, context_.name());
  }
  int greetings() const { return greetings_; }
  double divide(int a, int b) {
    if (b == 0)
      weft::throw_error(weft::ErrorCode::kInvalidArgument, "{} cannot be divided by 0", a);
    return static_cast<double>(a) / b;
  }

  static constexpr auto endpoints = weft::actors::interface<"hello.greeter", 1>(
      weft::actors::on<&Greeter::greet>("greet"),
      weft::actors::on<&Greeter::greetings>("greetings"),
      weft::actors::on<&Greeter::divide>("divide"));

 private:
  Context& context_;
  std::string word_;
  int greetings_ = 0;
};

int main(int argc, char** argv) {
  weft::actors::AppMain app(argc, argv);
  app.provide<Greeter>();
  return app.run([](Cluster& cluster, const weft::actors::AppRun&) {
    {
      // Starts one device process per rank. The constructor arguments are sent to each of them.
      auto greeters = cluster.spawn<Greeter>("greeters", {{"row", 2}, {"column", 1}}, {}, "hello");

      fmt::print("one:   {}\n", greeters.at({1, 0}).call<&Greeter::greet>("one").get());
      for (const std::string& line : greeters.call<&Greeter::greet>("all").get())
        fmt::print("all:   {}\n", line);
      for (const std::string& line :
           greeters.slice({{"row", 0}}).call<&Greeter::greet>("slice").get())
        fmt::print("slice: {}\n", line);

      const std::vector<int> counts = greeters.call<&Greeter::greetings>().get();  // per rank
      fmt::print("asked: {} and {} times\n", counts[0], counts[1]);

      try {
        greeters.rank(0).call<&Greeter::divide>(1, 0).get();
      } catch (const weft::Error& error) {
        fmt::print("error: {}\n", error.describe());
      }
    }
    // The mesh is out of scope: its actors are destroyed and its processes exit.
    fmt::print("meshes left: {}\n", cluster.status().meshes.size());
    return 0;
  });
}
