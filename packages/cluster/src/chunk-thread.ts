import { parentPort, workerData } from 'node:worker_threads'
import { exclusive, type FromChunkThread, type ToChunkThread } from './chunk-threads.ts'
import { chunkWork, SEALED_MORE_BYTES } from './chunk-work.ts'
import { ClusterKey } from './cluster-key.ts'

const key = new ClusterKey(workerData as Uint8Array)

parentPort?.on('message', ({ id, op, content, digest, out }: ToChunkThread) => {
  const answer = (message: FromChunkThread, transfer: ArrayBuffer[] = []) =>
    parentPort?.postMessage(message, transfer)
  try {
    if (op === 'name') return answer({ id, digest: chunkWork.name(key, content), content }, [content.buffer])
    if (op === 'seal') {
      const sealed = chunkWork.seal(
        key,
        content,
        digest,
        out ?? new Uint8Array(content.length + SEALED_MORE_BYTES),
      )
      return answer({ id, digest, content: sealed, plain: content }, [sealed.buffer, content.buffer])
    }
    const opened = exclusive(chunkWork.open(key, content, digest))
    answer({ id, digest, content: opened }, [opened.buffer])
  } catch (error) {
    answer({ id, error: (error as Error).message })
  }
})
