import { parentPort, workerData } from 'node:worker_threads'
import { exclusive, type FromChunkThread, type ToChunkThread } from './chunk-threads.ts'
import { chunkWork } from './chunk-work.ts'
import { ClusterKey } from './cluster-key.ts'

const key = new ClusterKey(workerData as Uint8Array)

parentPort?.on('message', ({ id, op, content, digest }: ToChunkThread) => {
  const answer = (message: FromChunkThread, transfer: ArrayBuffer[] = []) =>
    parentPort?.postMessage(message, transfer)
  try {
    if (op === 'name') return answer({ id, digest: chunkWork.name(key, content), content }, [content.buffer])
    const made = op === 'seal' ? chunkWork.seal(key, content, digest) : chunkWork.open(key, content, digest)
    // A buffer of the pool of this thread is not its own to give away.
    const own = exclusive(made)
    answer({ id, content: own, digest }, [own.buffer])
  } catch (error) {
    answer({ id, error: (error as Error).message })
  }
})
