import type { ServerEvent } from 'dormouse'
import { useCallback, useEffect, useState } from 'preact/hooks'
import { onEvent } from '../state/fleet.ts'

interface Read<Value> {
  readonly value: Value | undefined
  readonly problem: string | undefined
  readonly again: () => void
}

/** Reads a value, and reads it again after events that concern it. */
export function useRead<Value>(
  read: (signal: AbortSignal) => Promise<Value>,
  key: unknown,
  concerns: (event: ServerEvent) => boolean = () => false,
  // After a gap anything may have changed. What wakes a sandbox is not read for that.
  { followsGaps = true } = {},
): Read<Value> {
  const [value, setValue] = useState<Value>()
  const [problem, setProblem] = useState<string>()
  const [turn, setTurn] = useState(0)
  useEffect(() => {
    const stop = new AbortController()
    read(stop.signal).then(
      (found) => {
        if (stop.signal.aborted) return
        setValue(() => found)
        setProblem(undefined)
      },
      (error: unknown) => !stop.signal.aborted && setProblem(String((error as Error).message)),
    )
    return () => stop.abort()
  }, [key, turn])
  const again = useCallback(() => setTurn((before) => before + 1), [])
  useEffect(
    () => onEvent((event) => ((followsGaps && event.type === 'gap') || concerns(event)) && again()),
    [key],
  )
  return { value, problem, again }
}
