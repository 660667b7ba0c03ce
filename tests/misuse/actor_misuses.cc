// Wrong actor classes and calls. check_misuses compiles this file: each namespace gives exactly one
// error, a static assertion with the text of its line "error:", or none if that says "none".

#include <any>
#include <array>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "actors/launch/app_main.h"

namespace weft::actors {

struct Good {
  using Arguments = std::tuple<std::string, int>;
  Good(Context&, const std::string&, int) {}
  int add(int number, const std::string&) { return sum += number; }
  task<std::vector<int>> list(std::map<std::string, std::optional<int>>) {
    co_return std::vector<int>();
  }
  void clear() noexcept {}
  int unlisted() const { return sum; }
  static int shared(int number) { return number; }
  static constexpr auto endpoints =
      interface<"good", 1>(on<&Good::add>("add"), on<&Good::list>("list", idempotent),
                           on<&Good::clear>("clear", urgent));
  int sum = 0;
};
struct Empty {
  explicit Empty(Context&) {}
  static constexpr auto endpoints = interface<"empty", 1>();
};
struct Plain {
  explicit Plain(Context&) {}
  int add(int number) { return number; }
};
struct Declared;

// error: none
namespace valid {
struct Derived : Good {
  using Good::Good;
  int more(ActorRef<Derived> other) { return other ? 1 : 0; }
  static constexpr auto endpoints =
      interface<"derived", 1>(on<&Derived::more>("more"), on<&Derived::clear>("clear"));
};
void use(AppMain& app, Cluster& cluster, System& system) {
  app.provide<Good>();
  app.provide<Empty>();
  app.provide<Derived>([](Context& context, const std::string& text, int number) {
    return std::make_unique<Derived>(context, text, number);
  });
  auto mesh = cluster.spawn<Good>("good", {{"worker", 2}}, {}, "text", 3);
  mesh.call<&Good::add>(1, "text").get();
  mesh.scatter<&Good::list>(std::vector<std::map<std::string, std::optional<int>>>(2)).get();
  mesh.tell<&Good::clear>();
  system.host<Derived>("derived", "text", 3).call<&Derived::clear>().get();
  system.host_with<Empty>("empty", [](Context& c) { return std::make_unique<Empty>(c); });
}
}  // namespace valid

// error: an actor class lists its methods
namespace provide_without_endpoints {
struct Actor : Plain {};
void use(AppMain& app) { app.provide<Actor>(); }
}  // namespace provide_without_endpoints

// error: an actor class lists its methods
namespace host_without_endpoints {
struct Actor : Plain {};
void use(System& system) {
  auto actor = system.host<Actor>("actor", 3);
  actor.call<&Actor::add>(1).get();
}
}  // namespace host_without_endpoints

// error: an actor class lists its methods
namespace spawn_without_endpoints {
struct Actor : Plain {};
void use(Cluster& cluster) {
  auto actor = cluster.spawn<Actor>("actor", {.restarts = 3});
  const int sum = actor.call<&Actor::add>(1).get();
  static_cast<void>(sum);
}
}  // namespace spawn_without_endpoints

// error: an actor class lists its methods
namespace spawn_mesh_without_endpoints {
struct Actor : Plain {};
void use(System& system) {
  auto mesh = system.spawn_mesh<Actor>("mesh", MeshShape(), {});
  mesh.call<&Actor::add>(1).get();
}
}  // namespace spawn_mesh_without_endpoints

// error: an actor class lists its methods
namespace ref_without_endpoints {
struct Actor : Plain {};
void use(System& system, const ActorAddress& address) { system.ref<Actor>(address); }
}  // namespace ref_without_endpoints

// error: an actor class lists its methods
namespace call_without_endpoints {
struct Actor : Plain {};
void use(const ActorRef<Actor>& actor) { actor.call<&Actor::add>(1).get(); }
}  // namespace call_without_endpoints

// error: an actor class lists its methods
namespace private_endpoints {
class Actor {
 public:
  explicit Actor(Context&) {}
  int add(int number) { return number; }

 private:
  static constexpr auto endpoints = interface<"actor", 1>(on<&Actor::add>("add"));
};
void use(AppMain& app) { app.provide<Actor>(); }
}  // namespace private_endpoints

// error: the actor class is only declared here
namespace declared_class {
void use(const ActorRef<Declared>& actor, System& system) { system.ref<Declared>(actor.address()); }
}  // namespace declared_class

// error: an entry of an interface is no endpoint
namespace entry_without_on {
struct Actor {
  explicit Actor(Context&) {}
  int add(int number) { return number; }
  static constexpr auto endpoints = interface<"actor", 1>(&Actor::add);
};
void use(AppMain& app, const ActorRef<Actor>& actor) {
  app.provide<Actor>();
  actor.call<&Actor::add>(1).get();
}
}  // namespace entry_without_on

// error: the `endpoints` of an actor class is no interface
namespace endpoints_are_tuple {
struct Actor {
  explicit Actor(Context&) {}
  int add(int number) { return number; }
  static constexpr auto endpoints = std::tuple(on<&Actor::add>("add"));
};
void use(AppMain& app, const ActorRef<Actor>& actor) {
  app.provide<Actor>();
  actor.call<&Actor::add>(1).get();
}
}  // namespace endpoints_are_tuple

// error: the `endpoints` of an actor class must be `static constexpr`
namespace endpoints_not_constant {
struct Actor {
  explicit Actor(Context&) {}
  int add(int number) { return number; }
  static inline auto endpoints = interface<"actor", 1>(on<&Actor::add>("add"));
};
void use(AppMain& app) { app.provide<Actor>(); }
}  // namespace endpoints_not_constant

// error: an endpoint is a method of the actor class
namespace endpoint_of_data_member {
struct Actor {
  explicit Actor(Context&) {}
  int sum = 0;
  static constexpr auto endpoints = interface<"actor", 1>(on<&Actor::sum>("sum"));
};
void use(AppMain& app, const ActorRef<Actor>& actor) {
  app.provide<Actor>();
  const int sum = actor.call<&Actor::sum>().get();
  static_cast<void>(sum);
}
}  // namespace endpoint_of_data_member

// error: an endpoint is a method of the actor class
namespace endpoint_of_static_method {
struct Actor {
  explicit Actor(Context&) {}
  static int add(int number) { return number; }
  static constexpr auto endpoints = interface<"actor", 1>(on<&Actor::add>("add"));
};
void use(AppMain& app) { app.provide<Actor>(); }
}  // namespace endpoint_of_static_method

// error: a method in `endpoints` belongs to another class
namespace endpoint_of_other_class {
struct Actor {
  explicit Actor(Context&) {}
  static constexpr auto endpoints = interface<"actor", 1>(on<&Good::unlisted>("unlisted"));
};
void use(AppMain& app) { app.provide<Actor>(); }
}  // namespace endpoint_of_other_class

// error: two methods in `endpoints` have the same name
namespace same_name {
struct Actor {
  explicit Actor(Context&) {}
  int add(int number) { return number; }
  int remove(int number) { return -number; }
  static constexpr auto endpoints =
      interface<"actor", 1>(on<&Actor::add>("add"), on<&Actor::remove>("add"));
};
void use(AppMain& app, const ActorRef<Actor>& actor) {
  app.provide<Actor>();
  actor.call<&Actor::add>(1).get();
}
}  // namespace same_name

// error: the method "on_failure" decides about deaths of children
namespace on_failure_not_urgent {
struct Actor {
  explicit Actor(Context&) {}
  OnFailure on_failure(const Incident&) { return escalate; }
  static constexpr auto endpoints = interface<"actor", 1>(on<&Actor::on_failure>("on_failure"));
};
void use(AppMain& app, Cluster& cluster) {
  app.provide<Actor>();
  cluster.spawn<Actor>("actor", {}).stop();
}
}  // namespace on_failure_not_urgent

// error: the method "on_failure" decides about deaths of children
namespace on_failure_of_other_type {
struct Actor {
  explicit Actor(Context&) {}
  void on_failure(const std::string&) {}
  static constexpr auto endpoints =
      interface<"actor", 1>(on<&Actor::on_failure>("on_failure", urgent));
};
void use(AppMain& app) { app.provide<Actor>(); }
}  // namespace on_failure_of_other_type

// error: wrong number of arguments for the constructor
namespace spawn_with_too_few {
void use(Cluster& cluster) { cluster.spawn<Good>("good", {}, "text").stop(); }
}  // namespace spawn_with_too_few

// error: wrong number of arguments for the constructor
namespace host_with_too_many {
void use(System& system) { system.host<Empty>("empty", 3); }
}  // namespace host_with_too_many

// error: an argument does not convert to the type of the parameter
namespace spawn_mesh_with_wrong_type {
void use(System& system) { system.spawn_mesh<Good>("good", MeshShape(), {}, "text", "three"); }
}  // namespace spawn_mesh_with_wrong_type

// error: an actor class has a public constructor (Context&, arguments...)
namespace constructor_without_context {
struct Actor {
  using Arguments = std::tuple<std::string>;
  explicit Actor(std::string) {}
  static constexpr auto endpoints = interface<"actor", 1>();
};
void use(AppMain& app, Cluster& cluster) {
  app.provide<Actor>();
  cluster.spawn<Actor>("actor", {}, "text").stop();
}
}  // namespace constructor_without_context

// error: an actor class has a public constructor (Context&, arguments...)
namespace constructor_without_arguments {
struct Actor {
  Actor(Context&, std::string) {}
  static constexpr auto endpoints = interface<"actor", 1>();
};
void use(System& system) { system.host<Actor>("actor"); }
}  // namespace constructor_without_arguments

// error: `make` takes (Context&, arguments...)
namespace make_with_other_arguments {
struct Actor {
  Actor(Context&, std::string) {}
  static constexpr auto endpoints = interface<"actor", 1>();
};
void use(AppMain& app) {
  app.provide<Actor>([](Context& context, const std::string& text) {
    return std::make_unique<Actor>(context, text);
  });
}
}  // namespace make_with_other_arguments

// error: the `Arguments` of an actor class must be a std::tuple
namespace arguments_are_no_tuple {
struct Actor {
  using Arguments = std::string;
  Actor(Context&, std::string) {}
  static constexpr auto endpoints = interface<"actor", 1>();
};
void use(AppMain& app, Cluster& cluster) {
  app.provide<Actor>();
  cluster.spawn<Actor>("actor", {}, "text").stop();
}
}  // namespace arguments_are_no_tuple

// error: this type cannot be sent
namespace parameter_without_codec {
struct Task {
  int number = 0;
};
struct Actor {
  explicit Actor(Context&) {}
  int run(const Task& given) { return given.number; }
  static constexpr auto endpoints = interface<"actor", 1>(on<&Actor::run>("run"));
};
void use(AppMain& app, const ActorRef<Actor>& actor) {
  app.provide<Actor>();
  actor.call<&Actor::run>(Task()).get();
}
}  // namespace parameter_without_codec

// error: this type cannot be sent
namespace result_without_codec {
struct Result {
  std::unique_ptr<int> number;
};
struct Actor {
  explicit Actor(Context&) {}
  task<std::vector<Result>> run() { co_return std::vector<Result>(); }
  static constexpr auto endpoints = interface<"actor", 1>(on<&Actor::run>("run"));
};
void use(AppMain& app, Cluster& cluster) {
  app.provide<Actor>();
  auto actors = cluster.spawn<Actor>("actors", {{"worker", 2}}, {});
  for (const auto& results : actors.call<&Actor::run>().get())
    for (const Result& result : results) static_cast<void>(result);
}
}  // namespace result_without_codec

// error: this type cannot be sent
namespace constructor_argument_without_codec {
struct Settings {
  int number = 0;
};
struct Actor {
  using Arguments = std::tuple<Settings>;
  Actor(Context&, const Settings&) {}
  static constexpr auto endpoints = interface<"actor", 1>();
};
void use(AppMain& app, Cluster& cluster) {
  app.provide<Actor>();
  cluster.spawn<Actor>("actor", {}, Settings()).stop();
}
}  // namespace constructor_argument_without_codec

// error: this type cannot be sent
namespace field_without_codec {
struct Inner {
  std::mutex lock;
  static constexpr auto fields = weft::fields(&Inner::lock);
};
struct Outer {
  std::map<std::string, Inner> parts;
  static constexpr auto fields = weft::fields(&Outer::parts);
};
struct Actor {
  explicit Actor(Context&) {}
  void run(const Outer&) {}
  Outer last() { return {}; }
  static constexpr auto endpoints =
      interface<"actor", 1>(on<&Actor::run>("run"), on<&Actor::last>("last"));
};
void use(AppMain& app, const ActorRef<Actor>& actor) {
  app.provide<Actor>();
  actor.tell<&Actor::run>(Outer());
  actor.call<&Actor::last>().get();
}
}  // namespace field_without_codec

// error: a pointer cannot be sent
namespace pointer_parameter {
struct Actor {
  explicit Actor(Context&) {}
  void run(const char*) {}
  static constexpr auto endpoints = interface<"actor", 1>(on<&Actor::run>("run"));
};
void use(AppMain& app, const ActorRef<Actor>& actor) {
  app.provide<Actor>();
  actor.tell<&Actor::run>("text");
}
}  // namespace pointer_parameter

// error: std::vector<bool> cannot be sent
namespace list_of_bool {
struct Actor {
  explicit Actor(Context&) {}
  std::vector<bool> bits() { return {}; }
  static constexpr auto endpoints = interface<"actor", 1>(on<&Actor::bits>("bits"));
};
void use(AppMain& app, const ActorRef<Actor>& actor) {
  app.provide<Actor>();
  actor.call<&Actor::bits>().get();
}
}  // namespace list_of_bool

// error: an unscoped enum cannot be sent
namespace unscoped_enum {
enum Colour { kRed };
struct Actor {
  explicit Actor(Context&) {}
  void paint(std::optional<Colour>) {}
  static constexpr auto endpoints = interface<"actor", 1>(on<&Actor::paint>("paint"));
};
void use(AppMain& app, const ActorRef<Actor>& actor) {
  app.provide<Actor>();
  actor.tell<&Actor::paint>(kRed);
}
}  // namespace unscoped_enum

// error: const and & cannot be sent
namespace reference_in_arguments {
struct Actor {
  using Arguments = std::tuple<const std::string&>;
  Actor(Context&, const std::string&) {}
  static constexpr auto endpoints = interface<"actor", 1>();
};
void use(Cluster& cluster) { cluster.spawn<Actor>("actor", {}, "text").stop(); }
}  // namespace reference_in_arguments

// error: this type cannot be sent
namespace encode_without_codec {
struct Value {
  std::any value;
};
Value use() { return decode<Value>(encode(Value())); }
}  // namespace encode_without_codec

// error: this method is not in the `endpoints` of the actor class
namespace call_of_unlisted_method {
void use(const ActorRef<Good>& actor) {
  const int sum = actor.call<&Good::unlisted>().get();
  static_cast<void>(sum);
}
}  // namespace call_of_unlisted_method

// error: only a method can be called
namespace call_of_data_member {
void use(const MeshRef<Good>& mesh) {
  const std::vector<int> sums = mesh.call<&Good::sum>().get();
  static_cast<void>(sums);
}
}  // namespace call_of_data_member

// error: only a method can be called
namespace call_of_static_method {
void use(const ActorRef<Good>& actor) { actor.call<&Good::shared>(3).get(); }
}  // namespace call_of_static_method

// error: this method belongs to another class
namespace call_of_other_class {
void use(const ActorRef<Empty>& actor) { actor.call<&Good::clear>().get(); }
}  // namespace call_of_other_class

// error: wrong number of arguments
namespace call_with_too_few {
void use(const ActorRef<Good>& actor) { actor.call<&Good::add>(1).get(); }
}  // namespace call_with_too_few

// error: wrong number of arguments
namespace mesh_call_with_too_many {
void use(const MeshRef<Good>& mesh) { mesh.call_collect<&Good::clear>(1).get(); }
}  // namespace mesh_call_with_too_many

// error: an argument does not convert to the type of the parameter
namespace call_with_wrong_type {
void use(const ActorRef<Good>& actor) { actor.call<&Good::add>(1, 2.5).get(); }
}  // namespace call_with_wrong_type

// error: an argument does not convert to the type of the parameter
namespace scatter_of_wrong_type {
void use(const MeshRef<Good>& mesh) {
  mesh.scatter<&Good::list>(std::vector<std::string>(2)).get();
}
}  // namespace scatter_of_wrong_type

// error: a method cannot be `urgent` and `blocking`
namespace urgent_and_blocking {
struct Wrong {
  explicit Wrong(Context&) {}
  void wait() {}
  static constexpr auto endpoints =
      interface<"wrong", 1>(on<&Wrong::wait>("wait", urgent, blocking));
};
void use(System& system) { system.host<Wrong>("wrong"); }
}  // namespace urgent_and_blocking

// error: a method cannot be `urgent` and `concurrent`
namespace urgent_and_concurrent {
struct Wrong {
  explicit Wrong(Context&) {}
  task<int> wait() { co_return 1; }
  static constexpr auto endpoints =
      interface<"wrong", 1>(on<&Wrong::wait>("wait", concurrent, urgent));
};
void use(System& system) { system.host<Wrong>("wrong"); }
}  // namespace urgent_and_concurrent

// error: a `blocking` method must return its result, not a task
namespace blocking_task {
struct Wrong {
  explicit Wrong(Context&) {}
  task<int> wait() { co_return 1; }
  static constexpr auto endpoints = interface<"wrong", 1>(on<&Wrong::wait>("wait", blocking));
};
void use(System& system) { system.host<Wrong>("wrong"); }
}  // namespace blocking_task

// error: an option of a method is `urgent`, `idempotent`, `concurrent`, `blocking`,
namespace no_option {
struct Wrong {
  explicit Wrong(Context&) {}
  void wait() {}
  static constexpr auto endpoints = interface<"wrong", 1>(on<&Wrong::wait>("wait", 10));
};
void use(System& system) { system.host<Wrong>("wrong"); }
}  // namespace no_option

}  // namespace weft::actors
