import { computed, signal } from '@preact/signals'
import type { ComponentChildren } from 'preact'

/** The paths below the root belong to the API of E2B, which this server speaks, too. */
const BASE = '/page'
const path = signal(location.pathname)

/** The parts of the path: `/sandboxes/x/files` is `['sandboxes', 'x', 'files']`. */
export const route = computed(() =>
  path.value
    .replace(BASE, '')
    .split('/')
    .filter((part) => part !== '')
    .map(decodeURIComponent),
)

addEventListener('popstate', () => {
  path.value = location.pathname
})

function addressOf(to: string): string {
  return to === '/' ? to : BASE + to
}

export function navigate(to: string): void {
  if (addressOf(to) !== location.pathname) history.pushState(null, '', addressOf(to))
  path.value = location.pathname
  scrollTo(0, 0)
}

interface LinkProps {
  readonly to: string
  readonly class?: string | undefined
  readonly 'aria-label'?: string | undefined
  readonly 'aria-current'?: 'page' | undefined
  readonly children: ComponentChildren
}

/** A link within the page: without reloading it, unless a new tab is asked for. */
export function Link({ to, children, ...rest }: LinkProps) {
  const follow = (event: MouseEvent) => {
    if (event.metaKey || event.ctrlKey || event.shiftKey || event.button !== 0) return
    event.preventDefault()
    navigate(to)
  }
  return (
    <a href={addressOf(to)} onClick={follow} {...rest}>
      {children}
    </a>
  )
}
