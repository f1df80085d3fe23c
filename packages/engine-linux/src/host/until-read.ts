import { onAbort } from '@dormouse/async'

/** A reader that does not read keeps a process. */
const READ_MS = 120_000

/** Settles when the reader has read all or left. A reader that never begins does not keep the files. */
export async function untilRead(hand: (onEnd: () => void) => void, signal?: AbortSignal): Promise<void> {
  let onEnd = () => {}
  const ended = new Promise<void>((resolve) => {
    onEnd = resolve
  })
  using _abort = onAbort(signal, onEnd)
  const timer = setTimeout(onEnd, READ_MS).unref()
  hand(onEnd)
  await ended
  clearTimeout(timer)
}

/** The same bytes, and a call of `onEnd` when the reader has them or leaves. */
export async function* endingWith(
  data: AsyncIterable<Uint8Array>,
  onEnd: () => void,
): AsyncGenerator<Uint8Array> {
  try {
    yield* data
  } finally {
    onEnd()
  }
}
