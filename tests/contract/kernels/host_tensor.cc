#include "tests/contract/kernels/host_tensor.h"

#include <algorithm>
#include <cmath>

#include "core/cpu/cpu_kernels.h"

namespace weft::test {

std::vector<HostTensor> make_inputs(const OpCase& c, DType real, std::size_t offset,
                                    const std::function<double()>& normal) {
  std::vector<HostTensor> inputs;
  const std::vector<TensorType> types = c.types(real);
  const double ids = c.ids_below;
  for (std::size_t i = 0; i < types.size(); ++i) {
    const Holds holds = c.inputs[i].holds;
    HostTensor& tensor = inputs.emplace_back(types[i], holds == Holds::kReal ? offset : 0);
    const std::int64_t elements = types[i].elements();
    for (std::int64_t e = 0; e < elements; ++e) {
      const double drawn = normal();
      const double number = c.positive ? std::abs(drawn) : drawn;
      // Small ids are frequent.
      tensor.set(e, holds == Holds::kIds
                        ? std::min(ids - 1, std::floor(std::abs(number) * 0.3 * ids))
                        : number + (i == 0 ? c.shift : 0));
    }
  }
  if (c.kept) {
    std::vector<ConstTensorRef> in;
    std::vector<TensorRef> out;
    for (std::size_t i = 0; i < c.kept->inputs; ++i) in.push_back(inputs[i].ref());
    for (std::size_t i = 0; i < 2; ++i) out.push_back(inputs[c.kept->inputs + i].ref());
    CpuKernels(detect_instruction_set()).run(c.kept->op, in, out, {});
  }
  return inputs;
}

}  // namespace weft::test
