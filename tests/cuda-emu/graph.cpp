/*
 * Streams that record what they are given, and graphs of it.
 *
 * While a stream records, nothing of what it is given is done: arguments are copied, scalars too,
 * memory is looked at when the graph is launched. What cannot be recorded, or could wait for the
 * device, is refused and spoils the recording, as the real one has it for the thread that records
 * (cudaStreamCaptureModeThreadLocal): only when it is ended is the stream of use again.
 *
 * A graph that can be launched takes memory of the device, EMU_GRAPH_NODE bytes for each thing in
 * it (1024; drivers took up to 64 KiB).
 */
#include "emu.h"

#include <stdlib.h>

struct emu_stream {
	bool records, spoilt;
	std::vector<emu_node> nodes;
};

struct emu_graph {
	std::vector<emu_node> nodes;
};

struct emu_graph_exec {
	std::vector<emu_node> nodes;
	size_t bytes;
};

static thread_local emu_stream *recording; /* by this thread */

cudaStream_t
emu_stream_new(void)
{
	return new emu_stream();
}

void
emu_stream_free(cudaStream_t stream)
{
	delete stream;
}

bool
emu_recorded(cudaStream_t stream, emu_node node, cudaError_t *error)
{
	if (stream == nullptr || !stream->records)
		return false;
	*error = stream->spoilt ? cudaErrorStreamCaptureInvalidated : cudaSuccess;
	if (!stream->spoilt)
		stream->nodes.push_back(std::move(node));
	return true;
}

bool
emu_forbidden(cudaError_t why, cudaError_t *error)
{
	if (recording == nullptr)
		return false;
	recording->spoilt = true;
	*error = emu_fail(why);
	return true;
}

bool
emu_records(cudaStream_t stream)
{
	return stream != nullptr && stream->records;
}

cudaError_t
cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode)
{
	cudaError_t error;

	if (emu_refuses(EMU_CAPTURE, "cudaStreamBeginCapture", &error))
		return error;
	if (mode != cudaStreamCaptureModeThreadLocal)
		emu_die("cudaStreamBeginCapture: mode %d is not emulated", (int)mode);
	/* the default stream cannot be recorded */
	if (stream == nullptr || recording != nullptr)
		return emu_fail(
		    stream == nullptr ? cudaErrorStreamCaptureUnsupported : cudaErrorInvalidValue);
	stream->records = true;
	recording = stream;
	return cudaSuccess;
}

/* However it ends, the stream is as before. */
cudaError_t
cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph)
{
	std::vector<emu_node> nodes;
	cudaError_t error;

	*graph = nullptr;
	if (!emu_records(stream))
		return emu_fail(cudaErrorInvalidValue);
	if (stream != recording)
		return emu_fail(cudaErrorStreamCaptureWrongThread);
	nodes.swap(stream->nodes);
	stream->records = false;
	recording = nullptr;
	if (emu_refuses(EMU_CAPTURE, "cudaStreamEndCapture", &error)) {
		stream->spoilt = false;
		return error;
	}
	if (stream->spoilt) {
		stream->spoilt = false;
		return emu_fail(cudaErrorStreamCaptureInvalidated);
	}
	*graph = new emu_graph{std::move(nodes)};
	return cudaSuccess;
}

cudaError_t
cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus *status)
{
	*status = !emu_records(stream) ? cudaStreamCaptureStatusNone
		  : stream->spoilt     ? cudaStreamCaptureStatusInvalidated
				       : cudaStreamCaptureStatusActive;
	return cudaSuccess;
}

cudaError_t
cudaGraphInstantiate(cudaGraphExec_t *out, cudaGraph_t graph, unsigned long long flags)
{
	const char *wanted = getenv("EMU_GRAPH_NODE");
	size_t node = wanted != nullptr ? strtoul(wanted, nullptr, 10) : 1024;
	cudaError_t error;

	*out = nullptr;
	if (emu_refuses(EMU_CAPTURE, "cudaGraphInstantiate", &error))
		return error;
	if (graph == nullptr || flags != 0)
		return emu_fail(cudaErrorInvalidValue);
	if (!emu_take(graph->nodes.size() * node))
		return emu_fail(cudaErrorMemoryAllocation);
	*out = new emu_graph_exec{graph->nodes, graph->nodes.size() * node};
	return cudaSuccess;
}

cudaError_t
cudaGraphUpload(cudaGraphExec_t exec, cudaStream_t stream)
{
	cudaError_t error;

	if (emu_refuses(EMU_CAPTURE, "cudaGraphUpload", &error))
		return error;
	if (exec == nullptr || emu_records(stream))
		return emu_fail(cudaErrorInvalidValue);
	return cudaSuccess;
}

cudaError_t
cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream)
{
	cudaError_t error;

	if (exec == nullptr)
		return emu_fail(cudaErrorInvalidValue);
	if (emu_records(stream))
		emu_die("cudaGraphLaunch: a graph in a graph is not emulated");
	if (emu_refuses(EMU_GRAPH, "cudaGraphLaunch", &error))
		return error;
	for (const emu_node &node : exec->nodes)
		node();
	return cudaSuccess;
}

cudaError_t
cudaGraphDestroy(cudaGraph_t graph)
{
	cudaError_t error;

	if (emu_refuses(EMU_CAPTURE, "cudaGraphDestroy", &error))
		return error;
	delete graph;
	return cudaSuccess;
}

cudaError_t
cudaGraphExecDestroy(cudaGraphExec_t exec)
{
	cudaError_t error;

	if (emu_refuses(EMU_CAPTURE, "cudaGraphExecDestroy", &error))
		return error;
	if (exec != nullptr)
		emu_give(exec->bytes);
	delete exec;
	return cudaSuccess;
}
