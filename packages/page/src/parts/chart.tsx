import { useEffect, useRef } from 'preact/hooks'
import { colourOf } from './colour-of.ts'

interface ChartProps {
  readonly title: string
  /** Seconds since the epoch. */
  readonly times: readonly number[]
  readonly series: readonly {
    readonly name: string
    readonly colour: string
    readonly values: readonly number[]
  }[]
}

const HEIGHT_PX = 200

/** Lines over time. The library is loaded with the first chart; a table has the same numbers for those who cannot see. */
export function Chart({ title, times, series }: ChartProps) {
  const box = useRef<HTMLDivElement>(null)
  useEffect(() => {
    const element = box.current
    if (element === null) return
    let close = () => {}
    void import('uplot').then(({ default: Plot }) => {
      const axis = {
        stroke: colourOf('--ink-3'),
        grid: { stroke: colourOf('--line'), width: 1 },
        ticks: { show: false },
      }
      const plot = new Plot(
        {
          width: element.clientWidth,
          height: HEIGHT_PX,
          legend: { show: true },
          scales: { x: { time: true }, y: { range: (_plot, _low, high) => [0, high > 0 ? high * 1.1 : 1] } },
          axes: [axis, { ...axis, size: 64 }],
          series: [
            {},
            ...series.map(({ name, colour: stroke }) => ({
              label: name,
              stroke: colourOf(stroke),
              fill: colourOf(stroke).replace('rgb(', 'rgba(').replace(')', ', 0.1)'),
              width: 2,
              points: { show: true, size: 5 },
            })),
          ],
        },
        [[...times], ...series.map(({ values }) => [...values])],
        element,
      )
      const observer = new ResizeObserver(() =>
        plot.setSize({ width: element.clientWidth, height: HEIGHT_PX }),
      )
      observer.observe(element)
      close = () => {
        observer.disconnect()
        plot.destroy()
      }
    })
    return () => close()
  }, [times, series])
  return (
    <figure class="panel chart">
      <figcaption>{title}</figcaption>
      <div ref={box} aria-hidden="true" />
      <Numbers {...{ title, times, series }} />
    </figure>
  )
}

function Numbers({ title, times, series }: ChartProps) {
  return (
    <table class="hidden">
      <caption>{title}</caption>
      <tbody>
        {series.map(({ name, values }) => (
          <tr key={name}>
            <th scope="row">{name}</th>
            {values.map((value, index) => (
              <td key={times[index]}>{value.toFixed(4)}</td>
            ))}
          </tr>
        ))}
      </tbody>
    </table>
  )
}
