import { signal } from '@preact/signals'

export interface Toast {
  readonly id: number
  readonly text: string
  readonly kind: 'done' | 'failed'
}

export const toasts = signal<readonly Toast[]>([])
const SHOWN_MS = 6000
const FAILED_MS = 12_000
const TOASTS_MAX = 4
let lastId = 0

export function tell(text: string, kind: Toast['kind'] = 'done'): void {
  lastId += 1
  const toast = { id: lastId, text, kind }
  toasts.value = [...toasts.value.slice(1 - TOASTS_MAX), toast]
  setTimeout(() => dismiss(toast.id), kind === 'failed' ? FAILED_MS : SHOWN_MS)
}

export function dismiss(id: number): void {
  toasts.value = toasts.value.filter((toast) => toast.id !== id)
}

/** Runs `work`; a failure becomes a message. Returns whether it succeeded. */
export async function attempt(what: string, work: () => Promise<unknown>): Promise<boolean> {
  try {
    await work()
    return true
  } catch (error) {
    tell(`${what}: ${error instanceof Error ? error.message : String(error)}`, 'failed')
    return false
  }
}
