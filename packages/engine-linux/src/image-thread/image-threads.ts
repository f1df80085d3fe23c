import { availableParallelism } from 'node:os'
import { ImageThread } from './image-thread.ts'

/** One sandbox whose images take long must not keep all others from being saved. */
const THREADS_MAX = Math.max(2, availableParallelism())
/** Starting one takes as long as a small dump. */
const IDLE_MAX = 1

const idle: ImageThread[] = []
const waiting: ((thread: ImageThread) => void)[] = []
let lent = 0

/** Lends a thread for as long as `work` takes. */
export async function onImageThread<Value>(work: (thread: ImageThread) => Promise<Value>): Promise<Value> {
  const thread = await borrowImageThread()
  try {
    return await work(thread)
  } finally {
    returnImageThread(thread)
  }
}

/** Makes sure that the next one that is borrowed has begun to start. */
export function prepareImageThread(): void {
  if (idle.length === 0 && lent < THREADS_MAX) idle.push(new ImageThread())
}

export async function borrowImageThread(): Promise<ImageThread> {
  if (lent >= THREADS_MAX) return new Promise((resolve) => waiting.push(resolve))
  lent++
  return findIdle() ?? new ImageThread()
}

export function returnImageThread(thread: ImageThread): void {
  thread.forget()
  const next = waiting.shift()
  if (next !== undefined) {
    next(thread.isOver ? new ImageThread() : thread)
    return
  }
  lent--
  if (thread.isOver) return
  if (idle.length < IDLE_MAX) idle.push(thread)
  else void thread.close()
}

function findIdle(): ImageThread | undefined {
  for (let thread = idle.pop(); thread !== undefined; thread = idle.pop()) if (!thread.isOver) return thread
  return undefined
}
