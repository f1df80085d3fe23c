import { effect, signal } from '@preact/signals'

type Theme = 'light' | 'dark' | 'system'
const KEY = 'dormouse-theme'
const NEXT: Record<Theme, Theme> = { system: 'light', light: 'dark', dark: 'system' }

export const theme = signal<Theme>(readTheme())

effect(() => {
  const root = document.documentElement
  if (theme.value === 'system') delete root.dataset['theme']
  else root.dataset['theme'] = theme.value
})

export function nextTheme(): void {
  theme.value = NEXT[theme.value]
  localStorage.setItem(KEY, theme.value)
}

function readTheme(): Theme {
  const stored = localStorage.getItem(KEY)
  return stored === 'light' || stored === 'dark' ? stored : 'system'
}
