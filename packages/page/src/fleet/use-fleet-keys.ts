import type { SandboxInfo } from 'dormouse'
import { useEffect, useState } from 'preact/hooks'
import { navigate } from '../router.tsx'
import { sleep, wake } from '../sandbox/actions.ts'
import { mayRun } from '../state/session.ts'

interface FleetKeys {
  readonly rows: readonly SandboxInfo[]
  readonly pick: (id: string) => void
  readonly search: { readonly current: HTMLInputElement | null }
}

const PAGE_ROWS = 15

/** Moves a cursor over the rows: arrows or j and k, Enter opens, x selects, s sleeps, w wakes, / searches. */
export function useFleetKeys({ rows, pick, search }: FleetKeys) {
  const [cursor, setCursor] = useState(-1)
  const at = Math.min(cursor, rows.length - 1)
  const move = (by: number) => setCursor(Math.max(0, Math.min(rows.length - 1, at + by)))
  const keys: Record<string, () => void> = {
    ArrowDown: () => move(1),
    ArrowUp: () => move(-1),
    j: () => move(1),
    k: () => move(-1),
    PageDown: () => move(PAGE_ROWS),
    PageUp: () => move(-PAGE_ROWS),
    Home: () => setCursor(0),
    End: () => setCursor(rows.length - 1),
    '/': () => search.current?.focus(),
  }
  const row = rows[at]
  if (row !== undefined) {
    keys['Enter'] = () => navigate(`/sandboxes/${row.id}`)
    if (mayRun()) {
      keys['x'] = () => pick(row.id)
      keys['s'] = () => void sleep([row])
      keys['w'] = () => void wake([row])
    }
  }
  const onKeyDown = (event: KeyboardEvent) => {
    const { target } = event
    const isTyping = target instanceof HTMLInputElement && target.type !== 'checkbox'
    if (isTyping && event.key === 'Escape') (target as HTMLInputElement).blur()
    if (isTyping && event.key !== 'ArrowDown') return
    if (event.ctrlKey || event.metaKey || event.altKey) return
    // Enter and Space belong to what has the focus.
    if (event.key === 'Enter' && target instanceof HTMLElement && /^(A|BUTTON|SELECT)$/.test(target.tagName))
      return
    const act = keys[event.key]
    if (act === undefined) return
    event.preventDefault()
    if (isTyping) (target as HTMLInputElement).blur()
    act()
  }
  // Keys work also before anything has the focus.
  useEffect(() => {
    const onBody = (event: KeyboardEvent) => {
      if (event.target === document.body) onKeyDown(event)
    }
    document.addEventListener('keydown', onBody)
    return () => document.removeEventListener('keydown', onBody)
  })
  return { cursor: at, onKeyDown }
}
