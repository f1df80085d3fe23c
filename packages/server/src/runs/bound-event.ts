import type { RunEvent, TruncatedEvent } from '@dormouse/contracts'
import { EVENT_OVERHEAD_BYTES, MARK_TEXT_MAX_CHARACTERS, PROMPT_MAX_CHARACTERS } from './limits.ts'

/** An event that may be written into the journal. */
export interface Entry {
  readonly event: RunEvent
  /** About how much disk space it takes. */
  readonly bytes: number
}

export function entryOf(event: RunEvent): Entry {
  const { type } = event
  // An estimate is enough, and cheaper than making JSON of output that may never be written.
  const bytes =
    type === 'stdout' || type === 'stderr'
      ? Buffer.byteLength(event.data) + FIELDS_BYTES
      : Buffer.byteLength(JSON.stringify(event))
  return { event, bytes: bytes + EVENT_OVERHEAD_BYTES }
}

/** What JSON adds to the output of an event. */
const FIELDS_BYTES = 40

/**
 * Keeps only the fields of the event's type: a compromised agent could hide megabytes in an `exit`. Events that are
 * always kept are short.
 */
export function boundEvent(event: RunEvent): RunEvent {
  const { seq } = event
  switch (event.type) {
    case 'stdout':
    case 'stderr':
      return { seq, type: event.type, data: event.data, ...(event.between === true && { between: true }) }
    case 'result':
      return { seq, type: 'result', data: event.data, ...(event.main === true && { main: true }) }
    case 'error': {
      const { name, message, traceback } = event
      return { seq, type: 'error', name, message, traceback }
    }
    case 'input': {
      const prompt = event.prompt.slice(0, PROMPT_MAX_CHARACTERS)
      return { seq, type: 'input', prompt, ...(event.hidden === true && { hidden: true }) }
    }
    case 'truncated':
      return truncation({ seq, events: event.events, bytes: event.bytes })
    case 'start':
      return boundStart(event)
    case 'exit':
      return boundExit(event)
  }
}

export function truncation({ seq, events, bytes }: Omit<TruncatedEvent, 'type'>): TruncatedEvent {
  return { seq, type: 'truncated', events, bytes }
}

/** A `truncated` for a reader that has seen some of the missing events. Only the sum of the missing bytes is known. */
export function unseenPart(event: RunEvent, seenSeq: number): RunEvent {
  const unseen = event.seq - seenSeq
  if (event.type !== 'truncated' || event.events <= unseen) return event
  return truncation({
    seq: event.seq,
    events: unseen,
    bytes: Math.round((event.bytes * unseen) / event.events),
  })
}

function boundStart(event: RunEvent & { type: 'start' }): RunEvent {
  const { seq, runId, context, contextRestarted } = event
  return {
    seq,
    type: 'start',
    runId: short(runId),
    context: short(context),
    ...(contextRestarted !== undefined && { contextRestarted: short(contextRestarted) }),
  }
}

function boundExit(event: RunEvent & { type: 'exit' }): RunEvent {
  const { seq, exitCode, durationMs, signal, outOfMemory } = event
  return {
    seq,
    type: 'exit',
    exitCode,
    durationMs,
    ...(event.timedOut === true && { timedOut: true }),
    ...(event.interrupted === true && { interrupted: true }),
    ...(event.contextRestarted === true && { contextRestarted: true }),
    ...(signal !== undefined && { signal: short(signal) }),
    ...(outOfMemory !== undefined && { outOfMemory: short(outOfMemory) }),
  }
}

function short(text: unknown): string {
  return String(text).slice(0, MARK_TEXT_MAX_CHARACTERS)
}
