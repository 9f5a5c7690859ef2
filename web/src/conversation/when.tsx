// The time of an item in the history. Its tooltip shows the full date.

const clock = (time: string) => new Date(time).toLocaleTimeString(undefined, { hour: '2-digit', minute: '2-digit' });

export function When({ time }: { time: string | undefined }) {
  if (!time) return null;
  return (
    <time dateTime={time} title={new Date(time).toLocaleString()}>
      {clock(time)}
    </time>
  );
}
