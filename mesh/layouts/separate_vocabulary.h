#pragma once

#include "core/graph/graph.h"

namespace weft::mesh {

/// Model whose vocabulary layers are blocks of their own, so that a separate mesh can compute them
/// (Vocabulary Parallelism, arXiv 2411.05288).
struct SeparatedVocabulary {
  TrainingGraph graph;
  bool input = false;  ///< True if block 0 is the token embedding.
  bool output = true;  ///< True if the last block is the output layer.
};

/// Regroups the graph's nodes into other blocks. Nodes, values and names stay; ids may change.
///
///   0               embeddings of "vocab" tables, looked up by an input of the model
///   1 ... n         the model's blocks 0 ... n-1 without them
///   n + 1           the last linear, plain or with the embedding's table, and the cross-entropy
///
/// Backward nodes are in the blocks of their forward nodes. A gradient's terms are added where they
/// meet; a table shared by both ends has a term from each. Without such an embedding, blocks keep
/// their numbers, and the output layer is block n. Forward-only graphs have no gradients.
///
/// Throws Error(kInvalidConfig), saying what the model ends in, unless that is a linear with a
/// cross-entropy over the axis "vocab" whose logits have no other use.
SeparatedVocabulary separate_vocabulary(const TrainingGraph& model);

}  // namespace weft::mesh
