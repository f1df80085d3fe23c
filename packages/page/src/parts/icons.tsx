import type { ComponentChildren } from 'preact'

/** Icons with one line width, drawn on a 16 by 16 grid. */
function Icon({ children }: { children: ComponentChildren }) {
  return (
    <svg
      class="icon"
      viewBox="0 0 16 16"
      fill="none"
      stroke="currentColor"
      stroke-width="1.4"
      stroke-linecap="round"
      stroke-linejoin="round"
      aria-hidden="true"
    >
      {children}
    </svg>
  )
}

const PATHS = {
  fleet: 'M2 4h12M2 8h12M2 12h7',
  templates: 'M8 2 14 5 8 8 2 5zM2 8l6 3 6-3M2 11l6 3 6-3',
  volumes: 'M2.5 4c0-2.6 11-2.6 11 0v8c0 2.6-11 2.6-11 0zM2.5 4c0 2.6 11 2.6 11 0M2.5 8c0 2.6 11 2.6 11 0',
  usage: 'M2 14V2M2 14h12M5 11V8M8 11V5M11 11V7',
  keys: 'M9.5 6.5a3 3 0 1 0-2.4 2.9L9 11h2v2h2v-2.5z',
  server: 'M2.5 3h11v4h-11zM2.5 9h11v4h-11zM5 5h.01M5 11h.01',
  moon: 'M13 9.5A5.5 5.5 0 0 1 6.5 3 5.5 5.5 0 1 0 13 9.5z',
  sun: 'M8 5.2a2.8 2.8 0 1 0 0 5.6 2.8 2.8 0 0 0 0-5.6zM8 1.5v1M8 13.5v1M1.5 8h1M13.5 8h1M3.4 3.4l.7.7M11.9 11.9l.7.7M3.4 12.6l.7-.7M11.9 4.1l.7-.7',
  screen: 'M2 3h12v8H2zM6 14h4',
  out: 'M6 3H3v10h3M10 5l3 3-3 3M13 8H6',
  play: 'M4.5 3 12.5 8l-8 5z',
  stop: 'M4 4h8v8H4z',
  fork: 'M4 2v4a2 2 0 0 0 2 2h4a2 2 0 0 1 2 2v4M4 6v8M2.5 12.5 4 14l1.5-1.5M10.5 12.5 12 14l1.5-1.5',
  trash: 'M3 4.5h10M6.5 4.5V3h3v1.5M4.5 4.5l.5 8.5h6l.5-8.5',
  file: 'M4 1.5h5l3 3v10H4zM9 1.5V5h3',
  folder: 'M1.5 4h4.5l1.5 2h7v7.5h-13z',
  search: 'M7 2.5a4.5 4.5 0 1 0 0 9 4.5 4.5 0 0 0 0-9zM10.5 10.5 14 14',
  plus: 'M8 3v10M3 8h10',
  down: 'M8 2.5v8M4.5 7.5 8 11l3.5-3.5M3 13.5h10',
  up: 'M8 11V3M4.5 6 8 2.5 11.5 6M3 13.5h10',
  save: 'M3 2.5h8l2 2v9H3zM5.5 2.5v3.5h5V2.5M5.5 13.5v-4h5v4',
  check: 'M3 8.5 6.5 12 13 4.5',
  close: 'M4 4l8 8M12 4l-8 8',
  chevron: 'M6 3.5 10.5 8 6 12.5',
} as const

export type IconName = keyof typeof PATHS

export function Glyph({ name }: { name: IconName }) {
  return (
    <Icon>
      <path d={PATHS[name]} />
    </Icon>
  )
}

/** A mouse that sleeps, curled up. */
export function Mark() {
  return (
    <svg class="mark" viewBox="0 0 32 32" aria-hidden="true">
      <rect width="32" height="32" rx="8" />
      <path d="M24.5 18.5a8.5 8.5 0 1 1-3-8.2" />
      <circle cx="20.6" cy="11.2" r="2.6" />
      <path d="M24.3 18.6c-2.4 1.8-5.6 1.2-6.6-.6" />
    </svg>
  )
}
