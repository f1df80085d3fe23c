import type { ProcessEvent, RunEvent } from '@dormouse/contracts'
import { malformed } from './file-check.ts'

/**
 * The agent may be in hostile hands. An event is passed on only if the fields that our own code looks at are of their type;
 * anything else ends the stream with an error.
 */
export function checkRunEvent(value: unknown): RunEvent {
  const event = fieldsOf(value)
  switch (event.type) {
    case 'stdout':
    case 'stderr':
      return need(event, typeof event.data === 'string')
    case 'start':
      return need(event, typeof event.runId === 'string' && optional(event.contextRestarted, 'string'))
    case 'result':
      return need(event, typeof event.data === 'object' && event.data !== null)
    case 'error':
      return need(
        event,
        [event.name, event.message, event.traceback].every((field) => typeof field === 'string'),
      )
    case 'truncated':
      return need(event, Number.isSafeInteger(event.bytes) && Number.isSafeInteger(event.events))
    case 'exit':
      return need(event, Number.isSafeInteger(event.exitCode) && typeof event.durationMs === 'number')
    default:
      return need(event, false)
  }
}

export function checkProcessEvent(value: unknown): ProcessEvent {
  const event = fieldsOf(value)
  switch (event.type) {
    case 'stdout':
    case 'stderr':
      return need(event, typeof event.data === 'string')
    case 'start':
      return need(event, Number.isSafeInteger(event.pid))
    case 'truncated':
      return need(event, Number.isSafeInteger(event.bytes) && Number.isSafeInteger(event.events))
    case 'exit':
      return need(event, Number.isSafeInteger(event.exitCode) && typeof event.durationMs === 'number')
    default:
      return need(event, false)
  }
}

type Fields = Record<string, unknown> & { type?: unknown }

function fieldsOf(value: unknown): Fields {
  return typeof value === 'object' && value !== null ? (value as Fields) : {}
}

function optional(value: unknown, type: string): boolean {
  return value === undefined || typeof value === type
}

function need<Event>(event: Fields, holds: boolean): Event {
  if (!holds || !Number.isSafeInteger(event.seq)) throw malformed('event')
  return event as Event
}
