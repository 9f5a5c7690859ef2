// The images of a changed file: the versions before and after the change, side by side.

import { useEffect, useState } from 'preact/hooks';

import type { ReviewFile, ReviewImage } from '../protocol/messages.ts';
import { baseName } from '../ui/dom.ts';
import { Text } from '../ui/elements.tsx';
import { useMust } from '../ui/must.tsx';
import { useWorld } from '../ui/world.ts';

export function Images({ file }: { file: ReviewFile }) {
  const { old_image: old, new_image: fresh } = file;
  if (!old && !fresh) return null;
  return (
    <div class="versions">
      {old && (
        <Version key={old.blob_id} image={old} name={fresh ? 'Before' : 'Deleted'} path={file.old_path ?? file.path} />
      )}
      {fresh && <Version key={fresh.blob_id} image={fresh} name={old ? 'After' : 'New'} path={file.path} />}
    </div>
  );
}

/** `address`: the image's URL. `size`: "640 × 480", once it has been drawn. `problem`: why it can't be shown. */
type Shown = { address?: string; size?: string; problem?: string };

function Version({ image, name, path }: { image: ReviewImage; name: string; path: string }) {
  const { client } = useWorld();
  const [{ address, size, problem }, setShown] = useState<Shown>({});
  useEffect(() => {
    let made = '';
    let isOver = false;
    client.bytes(image.blob_id).then(
      (bytes) => {
        if (isOver) return;
        made = URL.createObjectURL(new Blob([bytes], { type: image.media_type }));
        setShown({ address: made });
      },
      (error: Error) => isOver || setShown({ problem: error.message }),
    );
    return () => {
      isOver = true;
      URL.revokeObjectURL(made);
    };
  }, [client, image.blob_id, image.media_type]);
  return (
    <figure>
      <figcaption>
        {name}
        {size && <small>{size}</small>}
      </figcaption>
      {!size && !problem && <Unseen />}
      {problem ? (
        <p class="hint">
          <Text>{problem}</Text>
        </p>
      ) : (
        address && (
          <img
            src={address}
            alt={`${baseName(path)}, ${name.toLowerCase()}`}
            onLoad={({ currentTarget: drawn }) =>
              setShown({ address, size: `${drawn.naturalWidth} × ${drawn.naturalHeight}` })
            }
            onError={() =>
              setShown({
                problem: 'The image can’t be shown: it is damaged, or in a format that this browser can’t show.',
              })
            }
          />
        )
      )}
    </figure>
  );
}

/** Prevents a decision on the change until the image, or the reason why it can't be shown, is drawn. */
function Unseen() {
  useMust();
  return null;
}
