// Wrong generators, and wrong calls of them. check_misuses compiles this file, by the rules of
// actor_misuses.cc.

#include <any>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "actors/launch/app_main.h"

namespace weft::actors {

template <int number_of_use>
struct Lines {
  explicit Lines(Context&) {}
  generator<std::string> lines(int number) {
    for (int i = 0; i < number; ++i) co_yield "line";
  }
  int count() const { return 0; }
  static constexpr auto endpoints =
      interface<"lines", 1>(on<&Lines::lines>("lines", concurrent), on<&Lines::count>("count"));
};

// error: none
namespace valid {
void use(Cluster& cluster, System& system) {
  for (auto&& line : system.host<Lines<0>>("lines").stream<&Lines<0>::lines>(3))
    line.value().size();
  auto readers = cluster.spawn<Lines<0>>("lines", {{"worker", 2}}, {});
  for (auto&& [rank, line] : readers.stream<&Lines<0>::lines>(3)) line.value().size();
}
}  // namespace valid

// error: the method is a generator, which gives several values
namespace call_of_generator {
void use(const ActorRef<Lines<1>>& actor) {
  const std::string line = actor.call<&Lines<1>::lines>(3).get();
  static_cast<void>(line);
}
}  // namespace call_of_generator

// error: the method is a generator, which gives several values
namespace tell_of_generator {
void use(const ActorRef<Lines<2>>& actor) { actor.tell<&Lines<2>::lines>(3); }
}  // namespace tell_of_generator

// error: the method is a generator, which gives several values
namespace mesh_call_of_generator {
void use(const MeshRef<Lines<3>>& mesh) { mesh.call<&Lines<3>::lines>(3).get(); }
}  // namespace mesh_call_of_generator

// error: the method is a generator, which gives several values
namespace choose_of_generator {
void use(const MeshRef<Lines<4>>& mesh) { mesh.choose<&Lines<4>::lines>(3).get(); }
}  // namespace choose_of_generator

// error: the method is a generator, which gives several values
namespace scatter_of_generator {
void use(const MeshRef<Lines<5>>& mesh) {
  mesh.scatter<&Lines<5>::lines>(std::vector<int>(2)).get();
}
}  // namespace scatter_of_generator

// error: the method is a generator, which gives several values
namespace map_of_generator {
void use(const MeshRef<Lines<6>>& mesh) {
  for (auto&& [item, line] : mesh.map<&Lines<6>::lines>(std::vector<int>(2))) line.value();
}
}  // namespace map_of_generator

// error: the method is a generator, which gives several values
namespace reduce_of_generator {
void use(const MeshRef<Lines<7>>& mesh) { mesh.reduce<&Lines<7>::lines>(sum, 3).get(); }
}  // namespace reduce_of_generator

// error: stream() of one actor reads a generator
namespace stream_of_ordinary_method {
void use(const ActorRef<Lines<8>>& actor) {
  for (auto&& count : actor.stream<&Lines<8>::count>()) count.value();
}
}  // namespace stream_of_ordinary_method

// error: a generator cannot be `blocking`
namespace blocking_generator {
struct WrongGenerator {
  explicit WrongGenerator(Context&) {}
  generator<int> count() { co_yield 1; }
  static constexpr auto endpoints =
      interface<"wrong", 1>(on<&WrongGenerator::count>("count", blocking));
};
void use(System& system) { system.host<WrongGenerator>("wrong"); }
}  // namespace blocking_generator

// error: reduce() cannot combine them
namespace reduced_generator {
struct WrongGenerator {
  explicit WrongGenerator(Context&) {}
  generator<int> count() { co_yield 1; }
  static int add(int a, int b) { return a + b; }
  static constexpr auto endpoints =
      interface<"wrong", 1>(on<&WrongGenerator::count>("count", reduce_with<&WrongGenerator::add>));
};
void use(System& system) { system.host<WrongGenerator>("wrong"); }
}  // namespace reduced_generator

// error: this type cannot be sent
namespace generator_without_codec {
struct Thing {
  std::any value;
};
struct WrongGenerator {
  explicit WrongGenerator(Context&) {}
  generator<Thing> values() {
    const Thing value;
    co_yield value;
  }
  static constexpr auto endpoints = interface<"wrong", 1>(on<&WrongGenerator::values>("values"));
};
void use(System& system) { system.host<WrongGenerator>("wrong"); }
}  // namespace generator_without_codec

// error: a generator is not awaited
namespace awaited_generator {
generator<int> numbers() { co_yield 1; }
task<int> sum() {
  auto values = numbers();
  co_await values;
  co_return 1;
}
}  // namespace awaited_generator

// error: generator<void> has no use
namespace generator_of_nothing {
struct WrongGenerator {
  explicit WrongGenerator(Context&) {}
  generator<void> nothing() { co_return; }
};
}  // namespace generator_of_nothing

// error: give the value a name
namespace temporary_struct_in_co_yield {
struct Line {
  std::string text;
  static constexpr auto fields = weft::fields(&Line::text);
};
generator<Line> lines() { co_yield Line{"text"}; }
}  // namespace temporary_struct_in_co_yield

// error: give the value a name
namespace braces_in_co_yield {
struct Line {
  std::string text;
  static constexpr auto fields = weft::fields(&Line::text);
};
generator<Line> lines() { co_yield {"text"}; }
}  // namespace braces_in_co_yield

// error: give the value a name
namespace temporary_struct_for_optional {
struct Line {
  std::string text;
  static constexpr auto fields = weft::fields(&Line::text);
};
generator<std::optional<Line>> lines() { co_yield Line{"text"}; }
}  // namespace temporary_struct_for_optional

// error: none
namespace named_struct_in_co_yield {
struct Line {
  std::string text;
  static constexpr auto fields = weft::fields(&Line::text);
};
generator<Line> lines() {
  const Line line{"text"};
  co_yield line;
}
generator<std::pair<int, std::string>> pairs() { co_yield {1, "text"}; }
}  // namespace named_struct_in_co_yield

}  // namespace weft::actors
