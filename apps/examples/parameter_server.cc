// A parameter server: workers fit a line to their points and share its slope and offset through one
// actor, whose handle each of them gets.
#include <fmt/format.h>

#include <utility>
#include <vector>

#include "actors/launch/app_main.h"

using namespace weft::actors;

struct Line {
  double slope = 0, offset = 0;
  static constexpr auto fields = weft::fields(&Line::slope, &Line::offset);
};

/// Holds the parameters. Adds gradients in the order in which they arrive.
struct Server {
  explicit Server(Context&) {}
  Line pull() const { return line; }
  void push(Line gradient) {
    line.slope -= 0.05 * gradient.slope;
    line.offset -= 0.05 * gradient.offset;
  }
  static constexpr auto endpoints = interface<"examples.server", 1>(
      on<&Server::pull>("pull", idempotent), on<&Server::push>("push"));
  Line line;
};

/// Has points of y = 3 x + 1, at other x than its neighbours.
struct Worker {
  using Arguments = std::tuple<ActorRef<Server>>;
  Worker(Context& context, ActorRef<Server> of_all)
      : server(std::move(of_all)), x(0.25 * static_cast<double>(context.place().rank + 1)) {}
  task<void> train(int steps) {
    for (int step = 0; step < steps; ++step) {
      const Line line = co_await server.call<&Server::pull>();
      const double error = line.slope * x + line.offset - (3 * x + 1);
      const Line gradient{2 * error * x, 2 * error};
      co_await server.call<&Server::push>(gradient);
    }
  }
  static constexpr auto endpoints = interface<"examples.worker", 1>(on<&Worker::train>("train"));
  ActorRef<Server> server;
  double x;
};

int main(int argc, char** argv) {
  AppMain app(argc, argv);
  app.provide<Server>();
  app.provide<Worker>();
  return app.run([](Cluster& cluster, const AppRun&) {
    const auto server = cluster.spawn<Server>("server", {});
    const auto workers = cluster.spawn<Worker>("workers", {{"worker", 3}}, {}, server.ref());
    workers.call<&Worker::train>(1000).get();
    const Line line = server.call<&Server::pull>().get();
    fmt::print("y = {:.2f} x + {:.2f}\n", line.slope, line.offset);
    return 0;
  });
}
