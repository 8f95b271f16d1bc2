# SPDX-License-Identifier: BSD-3-Clause
# Builds the examples against an installed libloco: copy this folder, and say `make`. It needs Open
# MPI's mpicc, and pkg-config has to find loco-mpi.pc.
CC = mpicc
CFLAGS = -O2
LOCO_CFLAGS := $(shell pkg-config --cflags loco-mpi)
LOCO_LIBS := $(shell pkg-config --libs loco-mpi)

index = word_index.o index_build.o index_check.o index_files.o index_query.o index_trees.o \
	postings.o text_file.o words.o
kv = kv_ycsb.o kv_backends.o kv_histogram.o kv_index.o kv_loco.o kv_mpi.o kv_run.o kv_workload.o
power = power_controller.o power_check.o power_loops.o power_plant.o
tx = tx_example.o tx_backends.o tx_index.o tx_loco.o

bank: bank.o bank_loco.o bank_mpi.o bank_tx.o
barrier_latency: barrier_latency.o
elastic_kv: elastic_kv.o elastic_serve.o elastic_table.o
graph_bfs: graph_bfs.o graph.o graph_check.o
gups: gups.o
kv_ycsb: $(kv)
power_controller: $(power)
replicated_config: replicated_config.o settings.o
replicated_kv: replicated_kv.o replica.o
replicated_log: replicated_log.o log_copy.o
sensors: sensors.o
smallbank: smallbank.o smallbank_workload.o $(tx)
task_queue: task_queue.o
tatp: tatp.o $(tx)
tpcc: tpcc.o tpcc_check.o tpcc_load.o tpcc_rows.o tpcc_transactions.o
word_index: $(index)
wordcount: wordcount.o text_input.o word_table.o words.o

programs = bank barrier_latency elastic_kv graph_bfs gups kv_ycsb power_controller \
	replicated_config replicated_kv replicated_log sensors smallbank task_queue tatp tpcc \
	word_index wordcount
all: $(programs)
$(programs): common.o
	$(CC) $(CFLAGS) $^ $(LDFLAGS) -o $@ $(LOCO_LIBS) -lpthread -lm
%.o: %.c $(wildcard *.h)
	$(CC) $(CFLAGS) $(LOCO_CFLAGS) -D_GNU_SOURCE -c $< -o $@
clean:
	rm -f *.o $(programs)
.DEFAULT_GOAL = all
.PHONY: all clean
