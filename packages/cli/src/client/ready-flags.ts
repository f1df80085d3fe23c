import { Option } from 'commander'
import type { CreateTemplate } from 'dormouse'

export interface ReadyFlags {
  readonly ready?: string
  readonly readyCommand?: string
}

export function readyOptions(): Option[] {
  return [
    new Option('--ready <condition>', 'when it is ready: a port, or the text of an output line'),
    new Option('--ready-command <command>', 'it is ready when this command succeeds').conflicts('ready'),
  ]
}

export function readyOf({ ready, readyCommand }: ReadyFlags): CreateTemplate['ready'] | undefined {
  if (readyCommand !== undefined) return { command: readyCommand }
  if (ready === undefined) return undefined
  return /^\d+$/.test(ready) ? { port: Number(ready) } : { log: ready }
}
