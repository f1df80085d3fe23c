import type { ComponentChildren } from 'preact'
import { useLayoutEffect, useRef, useState } from 'preact/hooks'

const OVERSCAN = 8

interface VirtualRowsProps<Item> {
  readonly items: readonly Item[]
  readonly rowPx: number
  readonly keyOf: (item: Item) => string
  readonly render: (item: Item, index: number) => ComponentChildren
  /** The rows on the screen. */
  readonly onShown?: (items: readonly Item[]) => void
  /** This row stays in view. */
  readonly cursor?: number
  readonly label: string
}

/** Only the rows on the screen exist. All have the same height. */
export function VirtualRows<Item>(props: VirtualRowsProps<Item>) {
  const { items, rowPx, keyOf, render, onShown, cursor, label } = props
  const box = useRef<HTMLDivElement>(null)
  const [view, setView] = useState({ top: 0, height: 800 })
  useLayoutEffect(() => {
    const element = box.current
    if (element === null) return
    const measure = () => setView({ top: element.scrollTop, height: element.clientHeight })
    measure()
    const observer = new ResizeObserver(measure)
    observer.observe(element)
    element.addEventListener('scroll', measure, { passive: true })
    return () => {
      observer.disconnect()
      element.removeEventListener('scroll', measure)
    }
  }, [])
  useLayoutEffect(() => {
    const element = box.current
    if (element === null || cursor === undefined || cursor < 0) return
    const top = cursor * rowPx
    if (top < element.scrollTop) element.scrollTop = top
    if (top + rowPx > element.scrollTop + element.clientHeight)
      element.scrollTop = top + rowPx - element.clientHeight
  }, [cursor, rowPx])
  const first = Math.max(0, Math.floor(view.top / rowPx) - OVERSCAN)
  const last = Math.min(items.length, Math.ceil((view.top + view.height) / rowPx) + OVERSCAN)
  const shown = items.slice(first, last)
  useLayoutEffect(() => onShown?.(shown))
  return (
    <div class="virtual" ref={box} role="rowgroup" aria-label={label} tabIndex={0}>
      <div style={{ height: `${items.length * rowPx}px` }} role="presentation">
        <div style={{ transform: `translateY(${first * rowPx}px)` }} role="presentation">
          {shown.map((item, index) => (
            <div key={keyOf(item)} style={{ height: `${rowPx}px` }} role="presentation">
              {render(item, first + index)}
            </div>
          ))}
        </div>
      </div>
    </div>
  )
}
