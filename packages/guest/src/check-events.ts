import {
  LANGUAGES,
  type OutputEvent,
  type ProcessEvent,
  type RunEvent,
  type TruncatedEvent,
} from '@dormouse/contracts'
import { AgentValue } from './agent-value.ts'

const TYPES = ['stdout', 'stderr', 'start', 'result', 'input', 'error', 'truncated', 'exit'] as const

/** Returns the fields that PROTOCOL.md lists, and no others. Throws `agent_unreachable` for a malformed event. */
export function checkRunEvent(value: unknown): RunEvent {
  const event = new AgentValue(value, 'event')
  const seq = event.count('seq')
  const type = event.oneOf('type', TYPES)
  if (type === 'stdout' || type === 'stderr') return outputEvent(event, seq, type)
  if (type === 'truncated') return truncatedEvent(event, seq)
  if (type === 'start') {
    const restarted = event.has('contextRestarted') && { contextRestarted: event.text('contextRestarted') }
    const language = event.has('language') && { language: event.oneOf('language', LANGUAGES) }
    return {
      seq,
      type,
      runId: event.text('runId'),
      context: event.text('context'),
      ...language,
      ...restarted,
    }
  }
  if (type === 'result')
    return { seq, type, data: event.object('data'), ...(event.isTrue('main') && { main: true }) }
  if (type === 'input')
    return { seq, type, prompt: event.text('prompt'), ...(event.isTrue('hidden') && { hidden: true }) }
  if (type === 'error') {
    const [name, message, traceback] = [event.text('name'), event.text('message'), event.text('traceback')]
    return { seq, type, name, message, traceback }
  }
  return {
    ...exitEvent(event, seq),
    ...(event.isTrue('interrupted') && { interrupted: true }),
    ...(event.isTrue('contextRestarted') && { contextRestarted: true }),
  }
}

export function checkProcessEvent(value: unknown): ProcessEvent {
  const event = new AgentValue(value, 'event')
  const seq = event.count('seq')
  const type = event.oneOf('type', TYPES)
  if (type === 'stdout' || type === 'stderr') return outputEvent(event, seq, type)
  if (type === 'truncated') return truncatedEvent(event, seq)
  if (type === 'start') return { seq, type, processId: event.processId('processId'), pid: event.pid('pid') }
  if (type === 'exit') return exitEvent(event, seq)
  return event.fail()
}

function outputEvent(event: AgentValue, seq: number, type: OutputEvent['type']): OutputEvent {
  return { seq, type, data: event.text('data'), ...(event.isTrue('between') && { between: true }) }
}

function truncatedEvent(event: AgentValue, seq: number): TruncatedEvent {
  return { seq, type: 'truncated', events: event.count('events'), bytes: event.count('bytes') }
}

function exitEvent(event: AgentValue, seq: number): Extract<ProcessEvent, { type: 'exit' }> {
  return {
    seq,
    type: 'exit',
    exitCode: event.exitCode('exitCode'),
    durationMs: event.durationMs('durationMs'),
    ...(event.isTrue('timedOut') && { timedOut: true }),
    ...(event.has('signal') && { signal: event.text('signal') }),
  }
}
