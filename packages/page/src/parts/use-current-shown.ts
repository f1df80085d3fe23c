import { useEffect, useRef } from 'preact/hooks'

/** Scrolls a row of links sideways until the current one is visible. Give the returned ref to the row. */
export function useCurrentShown(current: string) {
  const row = useRef<HTMLElement>(null)
  useEffect(() => {
    const link = row.current?.querySelector('[aria-current=page]')
    if (!row.current || !link) return
    const { left, right } = row.current.getBoundingClientRect()
    const here = link.getBoundingClientRect()
    if (here.left < left || here.right > right) row.current.scrollLeft += here.left - left
  }, [current])
  return row
}
